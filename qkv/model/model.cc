#include "qkv/model/model.h"

#include <algorithm>
#include <numeric>

#include "qkv/image/background.h"
#include "qkv/image/workspace.h"
#include "qkv/simd/elementwise.h"

namespace qkv::model {

Model Model::Load(const std::filesystem::path& path, const BuildOptions& options, const Cache& cache) {
  return Model(Checkpoint::Open(path), options, cache);
}

Model::Model(const Checkpoint& checkpoint, const BuildOptions& options, const Cache& cache)
    : description_(checkpoint.description), vit_(BuildCached(checkpoint, options, cache)) {}

std::vector<Prediction> Model::Classify(const image::Image& image, int64_t top) const {
  Require(config().classes > 0, "classify: the model has no classifier ({}); embed its images instead",
          config().architecture);
  const Tensor<float> logits = Logits(Pixels(image));
  return Top(logits.span(), top);
}

std::vector<Prediction> Model::Top(std::span<const float> logits, int64_t top) const {
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
}

}  // namespace qkv::model
