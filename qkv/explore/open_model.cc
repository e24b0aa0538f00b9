#include "qkv/explore/open_model.h"

#include <algorithm>

#include "qkv/core/memory.h"
#include "qkv/core/parallel.h"
#include "qkv/explore/edits.h"
#include "qkv/inspect/weights.h"
#include "qkv/lab/pairs.h"
#include "qkv/simd/gemm/matmul.h"
#include "qkv/train/run/initial_model.h"

namespace qkv::explore {
namespace {

// The configuration at another size; rotary positions keep the scale of the trained grid.
model::VitConfig AtSize(const model::Checkpoint& checkpoint, int64_t height, int64_t width) {
  model::VitConfig c = checkpoint.description.config;
  const std::string why = Obstacle(EditKind::kHead, c);
  Require(why.empty(), "{}: no pass is open to edits and gradients: {}", checkpoint.source, why);
  if (height == c.image_height && width == c.image_width) return c;
  Require(!nn::IsPositional(c.block.attention.kind),
          "{}: scores from positions of a grid of {}×{}; no pass of another "
          "size is open to edits",
          checkpoint.source, c.grid_height(), c.grid_width());
  if (c.rotary_grid_height == 0) c.rotary_grid_height = c.grid_height(), c.rotary_grid_width = c.grid_width();
  c.image_height = height, c.image_width = width;
  return c;
}

// Rows of W as tokens: [D, E], and the bias as one more, [D + 1, E].
Tensor<double> AsTokens(const algebra::Projection& projection, bool bias) {
  const int64_t E = projection.weight.dim(0), D = projection.weight.dim(1);
  Tensor<double> tokens({D + bias, E});
  for (int64_t e = 0; e < E; ++e) {
    for (int64_t d = 0; d < D; ++d) tokens[d * E + e] = projection.weight[e * D + d];
    if (bias) tokens[D * E + e] = projection.bias[e];
  }
  return tokens;
}

Tensor<double> CentreColumns(View<const double> rows) {
  Tensor<double> centred({rows.dim(0), rows.dim(1)});
  for (int64_t c = 0; c < rows.dim(1); ++c) {
    double sum = 0;
    for (int64_t r = 0; r < rows.dim(0); ++r) sum += *rows.at(r, c);
    const double mean = sum / static_cast<double>(rows.dim(0));
    for (int64_t r = 0; r < rows.dim(0); ++r) *centred.view().at(r, c) = *rows.at(r, c) - mean;
  }
  return centred;
}

// XᵀX
Tensor<double> Gram(View<const double> rows) {
  auto gram = Tensor<double>::Uninitialised({rows.dim(1), rows.dim(1)});
  simd::MatMul<double>(simd::Transposed(rows), rows, gram);
  return gram;
}

}  // namespace

algebra::TokenFactors FactorScores(View<const double> query, View<const double> key, bool centred) {
  const int64_t E = query.dim(1);
  const Tensor<double> centred_key = centred ? CentreColumns(key) : Tensor<double>();
  const View<const double> keys = centred ? centred_key.view() : key;
  if (auto factors = algebra::FactorTokens(Gram(query), Gram(keys))) return *std::move(factors);
  // Queries and keys as tokens of an identity M: its truncation that is best for these tokens.
  Tensor<double> identity({E, E});
  for (int64_t i = 0; i < E; ++i) identity[i * E + i] = 1;
  const algebra::ProjectionView side{identity.view(), {}};
  algebra::QueryKey pair = algebra::TruncateForData({side, side}, query, keys, E, algebra::Terms::kExact);
  return {std::move(pair.query.weight), std::move(pair.key.weight)};
}

Tensor<double> ProjectorOf(const algebra::TokenFactors& factors, int64_t rank) {
  const int64_t E = factors.query.dim(1);
  Tensor<double> product({E, E});
  for (int64_t r = 0; r < rank; ++r) {
    const double *q = factors.query.view().row(r), *k = factors.key.view().row(r);
    for (int64_t i = 0; i < E; ++i) {
      for (int64_t j = 0; j < E; ++j) product[i * E + j] += q[i] * k[j];
    }
  }
  return product;
}

OpenModel::OpenModel(const model::Checkpoint& checkpoint, int64_t height, int64_t width)
    : checkpoint_(checkpoint), network_(AtSize(checkpoint, height, width)) {
  const train::ParameterLayout& layout = network_.layout();
  RequireMemory(sizeof(float) * static_cast<double>(layout.size()), checkpoint.source + ": weights as stored");
  weights_ = Tensor<float>({layout.size()});
  train::CopyWeights(checkpoint, config(), layout, {}, weights_);
  // CopyWeights omits the classifier: it is copied as stored, with its own classes.
  for (const train::Slot& slot : layout.slots()) {
    if (!slot.name.starts_with("head.") && !slot.name.starts_with("head_dist.")) continue;
    const Tensor<float> from = model::ReadTensor<float>(checkpoint, slot.name);
    Require(from.shape() == slot.shape, "{}: tensor {} is {}, expected {}", checkpoint.source, slot.name, from.shape(),
            slot.shape);
    std::copy_n(from.data(), from.size(), weights_.data() + slot.offset);
  }
}

int64_t OpenModel::bytes() const {
  int64_t bytes = weights_.size() * static_cast<int64_t>(sizeof(float));
  for (const auto& [block, heads] : factors_) {
    for (const algebra::TokenFactors& head : heads) {
      bytes += (head.query.size() + head.key.size()) * static_cast<int64_t>(sizeof(double));
    }
  }
  return bytes;
}

const algebra::TokenFactors& OpenModel::Factors(int64_t block, int64_t head, bool exact) {
  std::vector<algebra::TokenFactors>& factors = factors_[{block, exact}];
  if (factors.empty()) {
    const inspect::AttentionWeights layer =
        inspect::ReadAttention(model::StoredBlocks(checkpoint_), block, inspect::NormBefore{});
    const lab::HeadPairs pairs = lab::MakeHeadPairs(layer);
    std::vector<algebra::TokenFactors> made(pairs.size());
    ParallelTasks(std::ssize(pairs), [&](int64_t h, int) {
      const algebra::QueryKey& pair = pairs[static_cast<size_t>(h)];
      made[static_cast<size_t>(h)] =
          FactorScores(AsTokens(pair.query, !pair.query.bias.empty()),
                       AsTokens(pair.key, exact && !pair.key.bias.empty()), /*centred=*/false);
    });
    factors = std::move(made);
  }
  return factors[static_cast<size_t>(head)];
}

}  // namespace qkv::explore
