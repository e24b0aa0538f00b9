#include "qkv/lab/tokens.h"

#include <algorithm>

#include "qkv/algebra/fold.h"
#include "qkv/inspect/weights.h"

namespace qkv::lab {

BlockTokens::BlockTokens(const model::Checkpoint& checkpoint) {
  const model::VitConfig& config = checkpoint.description.config;
  inspect::RequireLayerNormBefore(config.block, checkpoint.source);
  for (int64_t block = 0; block < config.depth; ++block) {
    const std::string norm = fmt::format("blocks.{}.norm1.", block);
    norms_.push_back({model::ReadTensor<double>(checkpoint, norm + "weight"),
                      model::ReadTensor<double>(checkpoint, norm + "bias"), config.block.norm.eps});
  }
  hidden_.resize(norms_.size());
}

void BlockTokens::Add(const model::Model& model, View<const float> pixels) {
  const int64_t B = pixels.dim(0), N = model.TokensFor(pixels.dim(2), pixels.dim(3)), D = model.config().block.width;
  std::vector<Tensor<float>> hidden;  // of each block, [B, N, D]
  model::Outputs<float> outputs;
  for (int64_t block = 0; block < blocks(); ++block) {
    hidden.push_back(Tensor<float>::Uninitialised({B, N, D}));
    outputs.hidden.push_back({block, hidden.back()});  // hidden.L is the input of block L
  }
  model.Forward(pixels, workspace_, outputs);
  for (size_t block = 0; block < hidden.size(); ++block) {
    for (int64_t image = 0; image < B; ++image) {
      auto one = Tensor<float>::Uninitialised({N, D});
      std::copy_n(hidden[block].view().at(image), one.size(), one.data());
      hidden_[block].push_back(std::move(one));
    }
  }
}

int64_t BlockTokens::tokens() const {
  int64_t count = 0;
  for (int64_t image = 0; image < images(); ++image) count += hidden_.front()[static_cast<size_t>(image)].dim(0);
  return count;
}

Tensor<double> BlockTokens::Of(int64_t block, int64_t image) const {
  const Norm& norm = norms_[static_cast<size_t>(block)];
  const Tensor<float>& hidden = hidden_[static_cast<size_t>(block)][static_cast<size_t>(image)];
  auto wide = Tensor<double>::Uninitialised(hidden.shape());
  std::ranges::copy(hidden.span(), wide.data());
  Tensor<double> tokens = algebra::Normalise(wide, norm.eps);
  const int64_t D = tokens.dim(1);
  for (int64_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = tokens[i] * norm.gamma[i % D] + (norm.beta.empty() ? 0 : norm.beta[i % D]);
  }
  return tokens;
}

Tensor<double> BlockTokens::All(int64_t block, bool centred) const {
  std::vector<Tensor<double>> parts;
  int64_t rows = 0;
  for (int64_t image = 0; image < images(); ++image) {
    parts.push_back(Of(block, image));
    rows += parts.back().dim(0);
  }
  const int64_t D = parts.front().dim(1);
  auto all = Tensor<double>::Uninitialised({rows, D});
  double* to = all.data();
  for (Tensor<double>& part : parts) {
    const int64_t N = part.dim(0);
    for (int64_t d = 0; d < D && centred; ++d) {
      double mean = 0;
      for (int64_t i = 0; i < N; ++i) mean += part[i * D + d] / static_cast<double>(N);
      for (int64_t i = 0; i < N; ++i) part[i * D + d] -= mean;
    }
    to = std::ranges::copy(part.span(), to).out;
  }
  return all;
}

}  // namespace qkv::lab
