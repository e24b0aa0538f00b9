#include "qkv/model/model.h"

#include <algorithm>
#include <numeric>

#include "qkv/core/memory.h"
#include "qkv/image/background.h"
#include "qkv/image/workspace.h"
#include "qkv/model/checkpoint/limits.h"
#include "qkv/model/finite.h"
#include "qkv/simd/rows/elementwise.h"

namespace qkv::model {

Model Model::Load(const std::filesystem::path& path, const BuildOptions& options, const Cache& cache) {
  return Model(Checkpoint::Open(path), options, cache);
}

Model::Model(const Checkpoint& checkpoint, const BuildOptions& options, const Cache& cache)
    : description_(checkpoint.description),
      stored_bytes_(static_cast<double>(checkpoint.tensors->bytes())),
      vit_(BuildCached(checkpoint, options, cache)) {}

std::vector<Prediction> Model::Classify(const image::Image& image, int64_t top) const {
  Require(config().classes > 0, "classify: the model has no classifier ({}); embed its images instead",
          config().architecture);
  const Tensor<float> pixels = Pixels(image), logits = Logits(pixels);
  RequireFinite(vit_, pixels, logits, "classify");
  return Top(logits.span(), top);
}

std::vector<Prediction> Model::Top(std::span<const float> logits, int64_t top) const {
  // NaN has no place in an order.
  Require(AllFinite(logits.data(), std::ssize(logits)), "classify: the logits hold NaN or infinity");
  std::vector<float> scores(logits.begin(), logits.end());
  simd::Softmax(scores.data(), static_cast<int64_t>(scores.size()));
  std::vector<int64_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  const auto count = static_cast<size_t>(std::clamp<int64_t>(top, 0, static_cast<int64_t>(order.size())));
  // By logit, which tells classes apart whose probabilities round to the same number.
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

void Model::RequireAffordable(const Shape& pixels) const {
  const double bytes = sizeof(float) * static_cast<double>(pixels.size());
  if (bytes > static_cast<double>(MemoryLimit())) RequireMemory(bytes, fmt::format("preprocess: pixels {}", pixels));
  if (size_given_ || pixels[1] < config().patch_height || pixels[2] < config().patch_width) return;
  RequireProportion(Cost(config(), pixels[1], pixels[2]), stored_bytes_,
                    "an image at the size that the checkpoint asks for", "give another size (--size, SetInputSize)");
}

Shape Model::PixelsShape(const image::Image& image) const {
  const Shape shape = image::OutputShape(preprocess(), image.height(), image.width());
  RequireAffordable(shape);
  return shape;
}

std::optional<Shape> Model::FixedPixelsShape() const {
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

void Model::Pixels(const image::Image& image, image::Workspace& workspace, View<float> out) const {
  const bool inverts = description_.dark_background && image::HasBrightBorder(image);
  if (inverts) image::Invert(image, workspace.negative);
  image::Apply(preprocess(), inverts ? workspace.negative : image, workspace, out);
}

Tensor<float> Model::Logits(View<const float> pixels) const {
  auto logits = Tensor<float>::Uninitialised({pixels.dim(0), config().outputs()});
  Workspace<float> workspace;
  vit_.Forward(pixels, workspace, {.logits = logits});
  return logits;
}

void Model::SetInputSize(int64_t height, int64_t width) {
  vit_.TokensFor(height, width);  // throws when the family refuses it
  description_.preprocess = PreprocessForSize(description_, height, width);
  size_given_ = true;
}

}  // namespace qkv::model
