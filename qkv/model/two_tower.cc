// Two towers: embeddings of unit length from either, and their logits.
#include "qkv/model/two_tower.h"

#include <algorithm>
#include <cmath>

#include "qkv/core/memory.h"
#include "qkv/core/parallel.h"
#include "qkv/model/blocks/finite.h"
#include "qkv/model/blocks/unit_rows.h"
#include "qkv/model/layout/bound_tensor.h"
#include "qkv/model/layout/limits.h"
#include "qkv/simd/gemm/matmul.h"
#include "qkv/simd/rows/elementwise.h"

namespace qkv::model {
namespace {

// Tokens of texts computed together: enough rows for every core, few enough that activations stay in the caches.
constexpr int64_t kTokensPerPass = 2048;

// The one value of a tensor.
float ReadScalar(const std::vector<BoundTensor>& tensors, std::string_view name) {
  const BoundTensor* bound = FindTensor(tensors, name);
  return bound == nullptr ? 0 : Read<float>(*bound)[0];
}

// As NormaliseRows. Throws Error that names the row, counted from `first`, if it has no direction.
void RequireDirections(View<float> x, std::string_view what, int64_t first) {
  const int64_t without = NormaliseRows(x);
  if (without < 0) return;
  throw AnswerError(FormatShown("{} {}: its embedding is zero, or holds NaN or infinity", what, first + without));
}

}  // namespace

TwoTowerModel TwoTowerModel::Load(const std::filesystem::path& path, Towers towers, const BuildOptions& options,
                                  const Cache& cache) {
  return TwoTowerModel(Checkpoint::Open(path), towers, options, cache);
}

TwoTowerModel::TwoTowerModel(const Checkpoint& checkpoint, Towers towers, const BuildOptions& options,
                             const Cache& cache) {
  const Description& description = checkpoint.description;
  Require(description.text.has_value(),
          "{}: {} ({}) has no text encoder; expected a model with two towers, such as CLIPModel or SiglipModel",
          checkpoint.source, description.config.architecture, Name(description.config.family));
  tower_ = *description.text;
  width_ = description.config.pooled_width();
  logit_scale_ = std::exp(ReadScalar(checkpoint.text, "logit_scale"));
  logit_bias_ = ReadScalar(checkpoint.text, "logit_bias");
  Require(std::isfinite(logit_scale_), "{}: its logit_scale is too large", checkpoint.source);
  if (towers != Towers::kText) image_.emplace(checkpoint, options, cache);
  if (towers == Towers::kImage) return;
  RequireProportion(Cost(tower_.config), static_cast<double>(checkpoint.tensors->bytes()),
                    fmt::format("{}: a text of the length that the checkpoint asks for", checkpoint.source),
                    "lower max_position_embeddings (context_length) in its configuration");
  text_ = std::make_unique<const SequenceModel<float>>(tower_.config, checkpoint.text, options);
}

const Model& TwoTowerModel::image() const {
  Require(has_image(), "two towers: the model was loaded for texts only; load Towers::kBoth");
  return *image_;
}

Model& TwoTowerModel::image() {
  Require(has_image(), "two towers: the model was loaded for texts only; load Towers::kBoth");
  return *image_;
}

const SequenceModel<float>& TwoTowerModel::text() const {
  Require(has_text(), "two towers: the model was loaded for images only; load Towers::kBoth");
  return *text_;
}

void TwoTowerModel::ImageEmbeds(View<const float> pixels, TowerWorkspace& workspace, View<float> out) const {
  image().Forward(pixels, workspace.image, {.pooled = out});
  RequireDirections(out, "image", 0);
}

Tensor<float> TwoTowerModel::ImageEmbeds(View<const float> pixels) const {
  auto out = Tensor<float>::Uninitialised({pixels.dim(0), width_});
  TowerWorkspace workspace;
  ImageEmbeds(pixels, workspace, out);
  return out;
}

template <typename Id>
void TwoTowerModel::EmbedTexts(View<const Id> ids, View<const Id> mask, TowerWorkspace& workspace,
                               View<float> out) const {
  Require(ids.rank() == 2 && ids.dense() && ids.dim(1) > 0 && ids.dim(1) <= text_length(),
          "two towers: expected dense ids [B, N], N of 1 to {}, got {}", text_length(), ids.shape());
  Require(mask.empty() || (mask.shape() == ids.shape() && mask.dense()),
          "two towers: the mask is {}, expected {}, dense", mask.shape(), ids.shape());
  Require(out.shape() == Shape({ids.dim(0), width_}) && out.dense(),
          "two towers: the embeddings are {}, expected [{}, {}], dense", out.shape(), ids.dim(0), width_);
  const SequenceModel<float>& model = text();
  const int64_t N = ids.dim(1), most = std::max<int64_t>(1, kTokensPerPass / N);
  Tensor<int32_t> tokens;
  Tensor<bool> visible;
  for (int64_t first = 0; first < ids.dim(0); first += most) {
    const int64_t B = std::min(most, ids.dim(0) - first);
    tokens.Reuse({B, N});
    if (!mask.empty()) visible.Reuse({B, N});
    for (int64_t i = 0; i < B * N; ++i) {
      const Id id = ids.data()[first * N + i];
      Require(id >= 0 && id < vocabulary(), "two towers: id {} of text {} is {}, expected 0 to {}", i % N,
              first + i / N, id, vocabulary() - 1);
      tokens.data()[i] = static_cast<int32_t>(id);
      if (mask.empty()) continue;
      const Id value = mask.data()[first * N + i];
      Require(value == 0 || value == 1, "two towers: the mask of token {} of text {} is {}, expected 0 or 1", i % N,
              first + i / N, value);
      visible.data()[i] = value != 0;
    }
    const View<float> rows = out.slice(0, first, first + B);
    model.Embed(tokens, mask.empty() ? View<const bool>() : View<const bool>(visible), workspace.text, rows);
    RequireDirections(rows, "text", first);
  }
}

void TwoTowerModel::TextEmbeds(View<const int64_t> ids, View<const int64_t> mask, TowerWorkspace& workspace,
                               View<float> out) const {
  EmbedTexts(ids, mask, workspace, out);
}

void TwoTowerModel::TextEmbeds(View<const int32_t> ids, View<const int32_t> mask, TowerWorkspace& workspace,
                               View<float> out) const {
  EmbedTexts(ids, mask, workspace, out);
}

Tensor<float> TwoTowerModel::TextEmbeds(View<const int64_t> ids, View<const int64_t> mask) const {
  auto out = Tensor<float>::Uninitialised({ids.dim(0), width_});
  TowerWorkspace workspace;
  EmbedTexts(ids, mask, workspace, out.view());
  return out;
}

Tensor<float> TwoTowerModel::TextEmbeds(View<const int32_t> ids, View<const int32_t> mask) const {
  auto out = Tensor<float>::Uninitialised({ids.dim(0), width_});
  TowerWorkspace workspace;
  EmbedTexts(ids, mask, workspace, out.view());
  return out;
}

Tensor<float> TwoTowerModel::LogitsPerImage(View<const float> images, View<const float> texts) const {
  for (const View<const float>& rows : {images, texts}) {
    Require(rows.rank() == 2 && rows.dim(1) == width_ && rows.dense(),
            "two towers: expected dense embeddings [n, {}], got {}", width_, rows.shape());
  }
  const int64_t I = images.dim(0), T = texts.dim(0), D = width_;
  RequireMemory(sizeof(float) * static_cast<double>(I) * static_cast<double>(T),
                fmt::format("logits of {} images and {} texts", I, T));
  auto logits = Tensor<float>::Uninitialised({I, T});
  ParallelFor(I, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      for (int64_t t = 0; t < T; ++t) {
        double sum = 0;
        for (int64_t d = 0; d < D; ++d) sum += double{images.row(i)[d]} * texts.row(t)[d];
        logits.view().row(i)[t] = static_cast<float>(sum * logit_scale_ + logit_bias_);
      }
    }
  });
  return logits;
}

Tensor<float> TwoTowerModel::Probabilities(View<const float> logits) const {
  Require(logits.rank() == 2 && logits.dense(), "two towers: expected dense logits [images, texts], got {}",
          logits.shape());
  auto result = Tensor<float>::Uninitialised(logits.shape());
  std::copy_n(logits.data(), logits.size(), result.data());
  for (int64_t i = 0; i < logits.dim(0); ++i) {
    float* const row = result.view().row(i);
    if (tower_.matching == Matching::kSoftmax) {
      simd::Softmax(row, logits.dim(1));
    } else {
      std::transform(row, row + logits.dim(1), row, [](float x) { return 1 / (1 + std::exp(-x)); });
    }
  }
  return result;
}

}  // namespace qkv::model
