// A Vision Transformer with its preprocessing and labels: images in; classes, vectors and attention maps out.
//
//   const auto model = qkv::model::Model::Load("vit-base");
//   for (const auto& [index, label, score] : model.Classify("photo.jpg")) std::cout << score << ' ' << label << '\n';
//
// A Model is immutable but for SetInputSize and KeepImageSizes: several threads may use one. Not here: attention
// rollout (qkv/inspect/rollout.h) and sequences (qkv/model/sequence/sequence_model.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "qkv/image/image.h"
#include "qkv/model/checkpoint/checkpoint.h"
#include "qkv/model/pooling.h"
#include "qkv/model/vision/vit.h"
#include "qkv/model/vision/vit_cache.h"

namespace qkv::model {

/// One class of a classification.
struct Prediction {
  int64_t index = 0;  // of the class, from 0
  std::string label;  // its name, or empty if the checkpoint has none
  float score = 0;    // as Model::Score gives it
};

/// Which attention Model::Attention returns.
struct AttentionOptions {
  /// The tokens whose attention weights are read.
  enum class Query {
    kDefault,     // the class token; without one the mean over all patches
    kClassToken,  // the class token
    kPatch,       // the patch at (row, column)
    kPatchMean,   // mean over all patches
  };
  int64_t block = -1;             // from 0; negative: from the end, −1 is the last block
  Query query = Query::kDefault;  // whose attention to return
  int64_t row = 0, column = 0;    // of the patch, from 0 at the top left; for Query::kPatch only
};

/// A Vision Transformer of any supported family, ready for inference.
class Model {
 public:
  /// Loads a folder or a .safetensors file of any supported layout. With a `cache` folder the next load maps the packed
  /// weights (qkv/model/vision/vit_cache.h). Throws Error that names the file and what is wrong with it.
  static Model Load(const std::filesystem::path& path, const BuildOptions& options = {}, const Cache& cache = {});
  /// Builds the model of an open checkpoint, which may be closed afterwards. Throws Error as Load.
  explicit Model(const Checkpoint& checkpoint, const BuildOptions& options = {}, const Cache& cache = {});

  /// The `top` most probable classes of a decoded image, best first (fewer if the model has fewer). Throws Error if the
  /// model has no classifier, or if the output is not finite; the error then names the block where this begins.
  std::vector<Prediction> Classify(const image::Image& image, int64_t top = 5) const;
  /// As above, for an image file. Throws Error also if the file cannot be read.
  std::vector<Prediction> Classify(const std::filesystem::path& file, int64_t top = 5) const;
  /// As above, for several images: one list for each, in their order. Images are preprocessed in parallel, and several
  /// are computed per pass; results equal those of single images. Errors name the image.
  std::vector<std::vector<Prediction>> Classify(std::span<const image::Image> images, int64_t top = 5) const;
  /// As above, for several image files, of which only a few are in memory at a time.
  std::vector<std::vector<Prediction>> Classify(std::span<const std::filesystem::path> files, int64_t top = 5) const;
  /// As above, from the logits [classes] of one image. Throws Error if one is not finite.
  std::vector<Prediction> Top(std::span<const float> logits, int64_t top) const;
  /// The scores of logits [classes], in their place: probabilities, unless the model predicts numbers (ClassScores).
  void Score(std::span<float> logits) const;

  /// The vector of a decoded image, [EmbeddingWidth(pooling)], not normalised. Throws Error for kTokens, if the model
  /// lacks the class token, or if the output is not finite; the error then names the block where this begins.
  Tensor<float> Embed(const image::Image& image, Pooling pooling = Pooling::kModel) const;
  /// As above, for an image file. Throws Error also if the file cannot be read.
  Tensor<float> Embed(const std::filesystem::path& file, Pooling pooling = Pooling::kModel) const;
  /// As above, for several images, a row for each: [images, EmbeddingWidth(pooling)]. Computed as by Classify.
  Tensor<float> Embed(std::span<const image::Image> images, Pooling pooling = Pooling::kModel) const;
  /// As above, for several image files, of which only a few are in memory at a time.
  Tensor<float> Embed(std::span<const std::filesystem::path> files, Pooling pooling = Pooling::kModel) const;
  /// Length of a vector of Embed.
  int64_t EmbeddingWidth(Pooling pooling = Pooling::kModel) const;

  /// Attention weights of one block from the query to each patch, for every head: [heads, grid height, grid width]. The
  /// grid is that of the preprocessed image in patches. The weights of a head sum to 1 only with those of the prefix
  /// tokens (class token, registers), which are left out. Later blocks are not computed. Throws Error if there is no
  /// such block, class token or patch, or if a weight is not finite.
  Tensor<float> Attention(const image::Image& image, const AttentionOptions& options = {}) const;

  /// The input tensor of an image by the checkpoint's own preprocessing: [1, channels, height, width].
  Tensor<float> Pixels(const image::Image& image) const;
  /// The same, in the image's memory where that suffices: without a copy of a large one.
  Tensor<float> Pixels(image::Image&& image) const;
  /// As above, into out: [channels, height, width], dense, of PixelsShape.
  void Pixels(const image::Image& image, image::Workspace& workspace, View<float> out) const;
  /// As above, of the square that begins at `start`, one of image::Squares.
  void SquarePixels(const image::Image& image, int64_t start, image::Workspace& workspace, View<float> out) const;
  /// The shape of an image's input tensor, [channels, height, width]. Throws Error if the checkpoint (not SetInputSize)
  /// determines the size and such an image would cost out of proportion to the weights, or if the pixels alone would
  /// exceed MemoryLimit().
  Shape PixelsShape(const image::Image& image) const;
  /// The common shape of all images, if preprocessing fixes it. Throws Error as PixelsShape.
  std::optional<Shape> FixedPixelsShape() const;
  /// Logits [B, outputs] of pixels [B, channels, height, width].
  Tensor<float> Logits(View<const float> pixels) const;

  /// Computes every output requested in `outputs`, with the caller's scratch memory. Throws Error as Vit::Forward.
  void Forward(View<const float> pixels, Workspace<float>& workspace, const Outputs<float>& outputs) const {
    vit_.Forward(pixels, workspace, outputs);
  }
  /// Number of tokens for an input of this size in pixels. Throws Error if the family rejects the size.
  int64_t TokensFor(int64_t height, int64_t width) const { return vit_.TokensFor(height, width); }

  /// Makes Pixels produce another size, as the family's own library would. Throws Error if the family rejects it. The
  /// time for a size set by the caller is not limited.
  void SetInputSize(int64_t height, int64_t width);
  /// Makes Pixels keep each image as it is, but for the edges that make no whole patch: nothing is resized, and images
  /// of different sizes have different numbers of tokens. Likewise not limited.
  void KeepImageSizes();

  /// The layers, without preprocessing and labels.
  const Vit<float>& vit() const { return vit_; }
  /// Widths, depth, patch size and all other values of the checkpoint's configuration.
  const VitConfig& config() const { return vit_.config(); }
  /// Memory of the packed weights of all linear layers, in bytes.
  int64_t weight_bytes() const { return vit_.weight_bytes(); }
  /// The preprocessing of images.
  const image::Preprocess& preprocess() const { return description_.preprocess; }
  /// Names of the classes, by index; or empty.
  const std::vector<std::string>& labels() const { return description_.labels; }
  /// Who named them.
  LabelSource label_source() const { return description_.label_source; }

 private:
  struct ImageSource;
  /// Called with images `first`, `first` + 1, … and their input tensor, [B, channels, height, width].
  using UsePass = std::function<void(int64_t first, View<const float> pixels, Workspace<float>& workspace)>;

  void RequireAffordable(const Shape& pixels) const;
  /// The image, or its negative in `workspace` if the model takes dark backgrounds only.
  const image::Image& OnItsBackground(const image::Image& image, image::Workspace& workspace) const;
  /// Reads and preprocesses all images, several at a time, and calls `use` for each of these passes in order.
  void ForEachPass(const ImageSource& images, const UsePass& use) const;
  void RequireFiniteRows(const ImageSource& images, int64_t first, View<const float> pixels,
                         View<const float> values) const;
  std::vector<std::vector<Prediction>> Classify(const ImageSource& images, int64_t top) const;
  Tensor<float> Embed(const ImageSource& images, Pooling pooling) const;

  Description description_;
  double stored_bytes_ = 0;  // bytes of the checkpoint's tensors
  bool size_given_ = false;
  Vit<float> vit_;
};

}  // namespace qkv::model
