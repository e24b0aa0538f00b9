// A Vit with preprocessing: decodes and preprocesses images in parallel passes, and reads classes, vectors and maps.
#include "qkv/model/model.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "qkv/core/memory.h"
#include "qkv/core/parallel.h"
#include "qkv/image/background.h"
#include "qkv/image/workspace.h"
#include "qkv/model/blocks/finite.h"
#include "qkv/model/families/describe.h"
#include "qkv/model/layout/limits.h"
#include "qkv/model/vision/where_not_finite.h"
#include "qkv/simd/rows/elementwise.h"

namespace qkv::model {

namespace {
// Maximum images per pass: enough to preprocess on many cores, few enough that pixels take little memory.
constexpr int64_t kImagesPerPass = 16;

// Scratch memory of a thread that decodes and preprocesses images.
struct Scratch {
  image::Workspace workspace;
  image::Image image;
};

// Copies [1, D] to [D].
Tensor<float> Row(const Tensor<float>& matrix) {
  auto row = Tensor<float>::Uninitialised({matrix.size()});
  std::copy_n(matrix.data(), matrix.size(), row.data());
  return row;
}

// The range [first, second) of tokens whose attention is requested, in a grid of patches.
std::pair<int64_t, int64_t> QueryRows(const AttentionOptions& options, const VitConfig& c, int64_t height,
                                      int64_t width) {
  using Query = AttentionOptions::Query;
  const int64_t prefix = c.prefix(), row = options.row, column = options.column;
  switch (options.query) {
    case Query::kDefault:
      if (c.class_token) return {0, 1};
      break;
    case Query::kClassToken:
      Require(c.class_token, "attention: the model has no class token; use Query::kPatch or kPatchMean");
      return {0, 1};
    case Query::kPatch: {
      Require(row >= 0 && row < height && column >= 0 && column < width,
              "attention: expected a patch from 0,0 to {},{}, got {},{}", height - 1, width - 1, row, column);
      const int64_t token = prefix + row * width + column;
      return {token, token + 1};
    }
    case Query::kPatchMean:
      break;
  }
  return {prefix, prefix + height * width};
}
}  // namespace

// Decoded images or files, read one by one; holds references only.
struct Model::ImageSource {
  std::string_view operation;  // for messages
  int64_t count = 0;
  std::function<const image::Image&(int64_t index, Scratch& scratch)> read;
  std::function<std::string(int64_t index)> name;

  static ImageSource Of(std::string_view operation, std::span<const image::Image> images) {
    return {operation, std::ssize(images),
            [images](int64_t i, Scratch&) -> const image::Image& { return images[static_cast<size_t>(i)]; },
            [operation, n = images.size()](int64_t i) {
              return n == 1 ? std::string(operation) : fmt::format("{}: image {} of {}", operation, i + 1, n);
            }};
  }
  static ImageSource Of(std::string_view operation, std::span<const std::filesystem::path> files) {
    return {operation, std::ssize(files),
            [files](int64_t i, Scratch& scratch) -> const image::Image& {
              image::DecodeFile(files[static_cast<size_t>(i)], {}, scratch.workspace, scratch.image);
              return scratch.image;
            },
            [files](int64_t i) { return FormatShown("{}", files[static_cast<size_t>(i)].native()); }};
  }
};

Model Model::Load(const std::filesystem::path& path, const BuildOptions& options, const Cache& cache) {
  return Model(Checkpoint::Open(path), options, cache);
}

Model::Model(const Checkpoint& checkpoint, const BuildOptions& options, const Cache& cache)
    : description_(checkpoint.description),
      stored_bytes_(static_cast<double>(checkpoint.tensors->bytes())),
      vit_(BuildCached(checkpoint, options, cache)) {}

std::vector<Prediction> Model::Classify(const image::Image& image, int64_t top) const {
  return std::move(Classify(ImageSource::Of("classify", {&image, 1}), top).front());
}

std::vector<Prediction> Model::Classify(const std::filesystem::path& file, int64_t top) const {
  return std::move(Classify(ImageSource::Of("classify", {&file, 1}), top).front());
}

std::vector<std::vector<Prediction>> Model::Classify(std::span<const image::Image> images, int64_t top) const {
  return Classify(ImageSource::Of("classify", images), top);
}

std::vector<std::vector<Prediction>> Model::Classify(std::span<const std::filesystem::path> files, int64_t top) const {
  return Classify(ImageSource::Of("classify", files), top);
}

std::vector<std::vector<Prediction>> Model::Classify(const ImageSource& images, int64_t top) const {
  Require(config().classes > 0, "classify: the model has no classifier ({}); embed its images instead",
          config().architecture);
  std::vector<std::vector<Prediction>> predictions;
  Tensor<float> logits;  // [B, classes]
  ForEachPass(images, [&](int64_t first, View<const float> pixels, Workspace<float>& workspace) {
    logits.Reuse({pixels.dim(0), config().outputs()});
    Forward(pixels, workspace, {.logits = logits});
    RequireFiniteRows(images, first, pixels, logits);
    const View<const float> rows = logits;
    for (int64_t b = 0; b < rows.dim(0); ++b) {
      predictions.push_back(Top({rows.row(b), static_cast<size_t>(rows.dim(1))}, top));
    }
  });
  return predictions;
}

std::vector<Prediction> Model::Top(std::span<const float> logits, int64_t top) const {
  // NaN cannot be sorted.
  if (!AllFinite(logits.data(), std::ssize(logits))) throw AnswerError("classify: the logits hold NaN or infinity");
  std::vector<float> scores(logits.begin(), logits.end());
  Score(scores);
  std::vector<int64_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  const auto count = static_cast<size_t>(std::clamp<int64_t>(top, 0, static_cast<int64_t>(order.size())));
  // Sorts by logit, because different logits may round to the same probability.
  std::partial_sort(order.begin(), order.begin() + static_cast<int64_t>(count), order.end(), [&](int64_t a, int64_t b) {
    const float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  });
  std::vector<Prediction> predictions(count);
  for (size_t i = 0; i < count; ++i) {
    const auto index = static_cast<size_t>(order[i]);
    predictions[i] = {order[i], index < labels().size() ? labels()[index] : "", scores[index]};
  }
  return predictions;
}

void Model::Score(std::span<float> logits) const {
  // The share of a single class would be 1 for any logit.
  const bool alone = logits.size() == 1 && config().scores == ClassScores::kSoftmax;
  switch (alone ? ClassScores::kSigmoid : config().scores) {
    case ClassScores::kSoftmax:
      simd::Softmax(logits.data(), std::ssize(logits));
      break;
    case ClassScores::kSigmoid:
      for (float& x : logits) x = 1 / (1 + std::exp(-x));
      break;
    case ClassScores::kNone:
      break;
  }
}

void Model::ForEachPass(const ImageSource& images, const UsePass& use) const {
  // Images of different sizes need one pass each.
  const std::optional<Shape> fixed = FixedPixelsShape();
  const int64_t most = fixed ? kImagesPerPass : 1;
  std::vector<Scratch> scratch(static_cast<size_t>(NumThreads()));
  Workspace<float> workspace;
  Tensor<float> pixels;  // [B, channels, height, width]
  for (int64_t first = 0; first < images.count; first += most) {
    const int64_t B = std::min(most, images.count - first);
    if (fixed) pixels.Reuse({B, (*fixed)[0], (*fixed)[1], (*fixed)[2]});
    ParallelTasks(B, [&](int64_t b, int thread) {
      Scratch& mine = scratch[static_cast<size_t>(thread)];
      const std::string name = images.name(first + b);
      try {
        const image::Image& image = images.read(first + b, mine);
        if (const Shape shape = PixelsShape(image); !fixed) pixels.Reuse({1, shape[0], shape[1], shape[2]});
        Pixels(image, mine.workspace, pixels.view()[b]);
      } catch (const Error& error) {
        if (std::string_view(error.what()).find(name) != std::string_view::npos) throw;
        throw Error(name + ": " + error.what());
      }
    });
    use(first, pixels, workspace);
  }
}

void Model::RequireFiniteRows(const ImageSource& images, int64_t first, View<const float> pixels,
                              View<const float> values) const {
  const int64_t b = FirstNotFinite(values);
  if (b < 0) return;
  RequireFinite(vit_, pixels.slice(0, b, b + 1), values.slice(0, b, b + 1), images.name(first + b));
}

Tensor<float> Model::Embed(const image::Image& image, Pooling pooling) const {
  return Row(Embed(ImageSource::Of("embed", {&image, 1}), pooling));
}

Tensor<float> Model::Embed(const std::filesystem::path& file, Pooling pooling) const {
  return Row(Embed(ImageSource::Of("embed", {&file, 1}), pooling));
}

Tensor<float> Model::Embed(std::span<const image::Image> images, Pooling pooling) const {
  return Embed(ImageSource::Of("embed", images), pooling);
}

Tensor<float> Model::Embed(std::span<const std::filesystem::path> files, Pooling pooling) const {
  return Embed(ImageSource::Of("embed", files), pooling);
}

int64_t Model::EmbeddingWidth(Pooling pooling) const { return PooledWidth(config(), pooling); }

Tensor<float> Model::Embed(const ImageSource& images, Pooling pooling) const {
  Require(pooling != Pooling::kTokens, "embed: expected one vector an image; Forward gives all tokens");
  RequirePooling(config(), pooling);
  auto vectors = Tensor<float>::Uninitialised({images.count, EmbeddingWidth(pooling)});
  Tensor<float> tokens;  // [B, N, D]
  ForEachPass(images, [&](int64_t first, View<const float> pixels, Workspace<float>& workspace) {
    const int64_t B = pixels.dim(0);
    const View<float> rows = vectors.view().slice(0, first, first + B);
    if (pooling == Pooling::kModel) {
      Forward(pixels, workspace, {.pooled = rows});
    } else {
      tokens.Reuse({B, TokensFor(pixels.dim(2), pixels.dim(3)), config().block.width});
      Forward(pixels, workspace, {.tokens = tokens});
      for (int64_t b = 0; b < B; ++b) PoolTokens(config(), pooling, tokens.view()[b], rows.row(b));
    }
    RequireFiniteRows(images, first, pixels, rows);
  });
  return vectors;
}

Tensor<float> Model::Attention(const image::Image& image, const AttentionOptions& options) const {
  const VitConfig& c = config();
  const int64_t block = options.block < 0 ? options.block + c.depth : options.block;
  Require(block >= 0 && block < c.depth, "attention: expected a block from 0 to {}, or from -{} to -1, got {}",
          c.depth - 1, c.depth, options.block);
  const Tensor<float> pixels = Pixels(image);
  const int64_t height = pixels.dim(2) / c.patch_height, width = pixels.dim(3) / c.patch_width;
  const auto [begin, end] = QueryRows(options, c, height, width);
  const auto count = static_cast<float>(end - begin);
  Tensor<float> maps({c.block.attention.heads, height, width});
  // weights: [1, heads, rows, N], for a few queries at a time
  const auto add = [&](int64_t, View<const float> weights) {
    ParallelFor(weights.dim(1), 1, [&](int64_t head, int64_t) {
      float* const map = maps.view().at(head);
      for (int64_t row = 0; row < weights.dim(2); ++row) {
        const float* const patches = weights.at(0, head, row, c.prefix());
        for (int64_t i = 0; i < height * width; ++i) map[i] += patches[i] / count;
      }
    });
  };
  Outputs<float> outputs;
  outputs.attention.push_back({block, {.row_begin = begin, .row_end = end, .visit = add}});
  Workspace<float> workspace;
  Forward(pixels, workspace, outputs);
  RequireFinite(vit_, pixels, maps, "attention");
  return maps;
}

void Model::RequireAffordable(const Shape& pixels) const {
  const double bytes = sizeof(float) * static_cast<double>(pixels.size());
  if (bytes > static_cast<double>(MemoryLimit())) RequireMemory(bytes, fmt::format("preprocess: pixels {}", pixels));
  if (size_given_ || pixels[1] < config().patch_height || pixels[2] < config().patch_width) return;
  RequireProportion(Cost(config(), pixels[1], pixels[2]), stored_bytes_,
                    "an image at the size that the checkpoint asks for", "give another size (--size, SetInputSize)");
}

Shape Model::PixelsShape(const image::Image& image) const {
  RequireKnownPreprocess(description_);
  const Shape shape = image::OutputShape(preprocess(), image.height(), image.width());
  RequireAffordable(shape);
  return shape;
}

std::optional<Shape> Model::FixedPixelsShape() const {
  RequireKnownPreprocess(description_);
  const std::optional<Shape> shape = image::FixedShape(preprocess());
  if (shape) RequireAffordable(*shape);
  return shape;
}

Tensor<float> Model::Pixels(const image::Image& image) const {
  const Shape shape = PixelsShape(image);
  auto pixels = Tensor<float>::Uninitialised({1, shape[0], shape[1], shape[2]});
  image::Workspace workspace;
  Pixels(image, workspace, pixels.view()[0]);
  return pixels;
}

Tensor<float> Model::Pixels(image::Image&& image) const {
  const Shape shape = PixelsShape(image);
  auto pixels = Tensor<float>::Uninitialised({1, shape[0], shape[1], shape[2]});
  if (description_.dark_background && image::HasBrightBorder(image)) image::Invert(image, image);
  if (preprocess().channels < image.channels()) image::DropChannels(image, preprocess().channels);
  image::Workspace workspace;
  image::Apply(preprocess(), image, workspace, pixels.view()[0]);
  return pixels;
}

void Model::Pixels(const image::Image& image, image::Workspace& workspace, View<float> out) const {
  image::Apply(preprocess(), OnItsBackground(image, workspace), workspace, out);
}

void Model::SquarePixels(const image::Image& image, int64_t start, image::Workspace& workspace, View<float> out) const {
  image::ApplySquare(preprocess(), OnItsBackground(image, workspace), start, workspace, out);
}

const image::Image& Model::OnItsBackground(const image::Image& image, image::Workspace& workspace) const {
  if (!description_.dark_background || !image::HasBrightBorder(image)) return image;
  image::Invert(image, workspace.negative);
  return workspace.negative;
}

Tensor<float> Model::Logits(View<const float> pixels) const {
  auto logits = Tensor<float>::Uninitialised({pixels.dim(0), config().outputs()});
  Workspace<float> workspace;
  vit_.Forward(pixels, workspace, {.logits = logits});
  return logits;
}

void Model::SetInputSize(int64_t height, int64_t width) {
  vit_.TokensFor(height, width);  // throws if the family rejects the size
  description_.preprocess = PreprocessForSize(description_, height, width);
  size_given_ = true;
}

void Model::KeepImageSizes() {
  image::Preprocess& p = description_.preprocess;
  p.resize = image::Preprocess::Resize::kNone, p.crop = image::Preprocess::Crop::kWhole;
  p.crop_height = config().patch_height, p.crop_width = config().patch_width;
  p.squares = false;
  size_given_ = true;
}

}  // namespace qkv::model
