// A model ready to answer: images in, numbers out. The first thing to include for a program that uses qkv.
//
//   const auto model = qkv::model::Model::Load("vit-base");
//   const auto image = qkv::image::DecodeFile("photo.jpg");
//   for (const auto& [index, label, score] : model.Classify(image, 5)) …
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "qkv/image/image.h"
#include "qkv/model/build/cache.h"
#include "qkv/model/checkpoint/checkpoint.h"
#include "qkv/model/vit.h"

namespace qkv::model {

struct Prediction {
  int64_t index = 0;
  std::string label;  // or empty
  float score = 0;    // softmax probability
};

class Model {
 public:
  /// A folder or a .safetensors file of any layout that qkv knows. Throws Error that says what is wrong.
  /// A `cache` with a folder makes the next load immediate, see cache.h.
  static Model Load(const std::filesystem::path& path, const BuildOptions& options = {}, const Cache& cache = {});
  explicit Model(const Checkpoint& checkpoint, const BuildOptions& options = {}, const Cache& cache = {});

  /// The `top` most probable classes, best first (fewer when there are fewer). Throws Error without a classifier, and
  /// when the answer is not finite: it names the block where that begins.
  std::vector<Prediction> Classify(const image::Image& image, int64_t top = 5) const;
  /// The same from one image's logits. Throws Error when one is not finite.
  std::vector<Prediction> Top(std::span<const float> logits, int64_t top) const;

  /// The input tensor of an image, as the checkpoint's own preprocessing makes it: [1, channels, height, width].
  Tensor<float> Pixels(const image::Image& image) const;
  /// The same into out: [channels, height, width], dense, of PixelsShape.
  void Pixels(const image::Image& image, image::Workspace& workspace, View<float> out) const;
  /// Throws Error when the size is the checkpoint's own choice (not SetInputSize's) and such an image would cost out of
  /// all proportion to its weights, and when the pixels alone would take more than MemoryLimit().
  Shape PixelsShape(const image::Image& image) const;
  /// The shape of all images where the preprocessing makes them alike. Throws Error as PixelsShape.
  std::optional<Shape> FixedPixelsShape() const;
  /// pixels: [B, channels, height, width] to [B, outputs].
  Tensor<float> Logits(View<const float> pixels) const;

  /// Every output that `outputs` names, with scratch memory of the caller's.
  void Forward(View<const float> pixels, Workspace<float>& workspace, const Outputs<float>& outputs) const {
    vit_.Forward(pixels, workspace, outputs);
  }
  int64_t TokensFor(int64_t height, int64_t width) const { return vit_.TokensFor(height, width); }

  /// Makes Pixels produce another size, as the family's own library would. Throws Error when the family refuses it.
  /// A size that is given may cost any amount of time.
  void SetInputSize(int64_t height, int64_t width);

  const Vit<float>& vit() const { return vit_; }
  const VitConfig& config() const { return vit_.config(); }
  int64_t weight_bytes() const { return vit_.weight_bytes(); }
  const image::Preprocess& preprocess() const { return description_.preprocess; }
  const std::vector<std::string>& labels() const { return description_.labels; }

 private:
  void RequireAffordable(const Shape& pixels) const;

  Description description_;
  double stored_bytes_ = 0;  // of the checkpoint's tensors
  bool size_given_ = false;
  Vit<float> vit_;
};

}  // namespace qkv::model
