#include "qkv/inspect/heads_logits.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "qkv/algebra/fold.h"
#include "qkv/core/parallel.h"
#include "qkv/simd/gemm/matmul.h"

namespace qkv::inspect {
namespace {

// Queries per tile.
constexpr int64_t kTileRows = 64;

Tensor<float> Narrow(const Tensor<double>& wide) {
  auto narrow = Tensor<float>::Uninitialised(wide.shape());
  for (int64_t i = 0; i < wide.size(); ++i) narrow[i] = static_cast<float>(wide[i]);
  return narrow;
}

// x Wᵀ of x [N, D].
Tensor<float> Project(const Tensor<float>& x, const Tensor<float>& weight) {
  auto y = Tensor<float>::Uninitialised({x.dim(0), weight.dim(0)});
  simd::MatMul<float>(x, simd::Transposed(weight.view()), y);
  return y;
}

// Subtracts the mean row and returns it.
std::vector<double> TakeMean(Tensor<float>& m) {
  const int64_t rows = m.dim(0), columns = m.dim(1);
  std::vector<double> mean(static_cast<size_t>(columns));
  for (int64_t i = 0; i < m.size(); ++i) mean[static_cast<size_t>(i % columns)] += m[i];
  for (double& x : mean) x /= static_cast<double>(rows);
  for (int64_t i = 0; i < m.size(); ++i) m[i] -= static_cast<float>(mean[static_cast<size_t>(i % columns)]);
  return mean;
}

// Tokens are hidden states before their norm, which is folded into the weights.
bool IsBefore(const AttentionWeights& weights) { return weights.norm != TokenNorm::kNone && !weights.norm_is_stream; }

// The projection of SplitTokens' result.
algebra::Projection OfTokens(const algebra::Projection& layer, const AttentionWeights& weights) {
  if (!IsBefore(weights)) return FoldNorm(layer, TokenNorm::kNone, {}, {});
  return algebra::FoldLayerNorm(layer, weights.gamma,
                                weights.beta.empty() ? View<const double>() : weights.beta.view());
}

// Subtracts from the first n entries of a row their mean.
void CentreRow(float* row, int64_t n) {
  double mean = 0;
  for (int64_t j = 0; j < n; ++j) mean += row[j] / static_cast<double>(n);
  for (int64_t j = 0; j < n; ++j) row[j] -= static_cast<float>(mean);
}

}  // namespace

Tensor<double> SplitTokens(const AttentionWeights& weights, const Tensor<float>& tokens) {
  Tensor<double> wide({tokens.dim(1), tokens.dim(2)});
  for (int64_t i = 0; i < wide.size(); ++i) wide[i] = tokens[i];
  if (!IsBefore(weights)) return wide;
  if (weights.norm == TokenNorm::kLayerNorm) return algebra::Normalise(wide, weights.eps);
  const int64_t D = wide.dim(1);
  for (int64_t i = 0; i < wide.dim(0); ++i) {
    double* const row = wide.data() + i * D;
    double squares = 0;
    for (int64_t d = 0; d < D; ++d) squares += row[d] * row[d] / static_cast<double>(D);
    for (int64_t d = 0; d < D; ++d) row[d] /= std::sqrt(squares + weights.eps);
  }
  return wide;
}

LogitSplit::LogitSplit(const AttentionWeights& weights, const Tensor<double>& positions, bool causal)
    : heads_(weights.heads), causal_(causal), positions_(positions.Clone()), sums_(static_cast<size_t>(weights.heads)) {
  const algebra::Projection query = OfTokens(weights.query, weights), key = OfTokens(weights.key, weights);
  const int64_t joined = query.weight.dim(0);
  Require(positions.rank() == 2 && positions.dim(1) == query.weight.dim(1) &&
              query.weight.shape() == key.weight.shape() && joined % heads_ == 0,
          "split logits: {} heads of queries {} and keys {} do not fit positions {}", heads_, query.weight.shape(),
          key.weight.shape(), positions.shape());
  query_ = Narrow(query.weight), key_ = Narrow(key.weight);
  const Tensor<float> narrow = Narrow(positions);
  query_position_ = Project(narrow, query_), key_position_ = Project(narrow, key_);
  for (int64_t i = 0; i < query_position_.size() && !query.bias.empty(); ++i) {
    query_position_[i] += static_cast<float>(query.bias[i % joined]);
  }
  key_mean_ = TakeMean(key_position_);
  for (int64_t i = 0; i < joined && !key.bias.empty(); ++i) key_mean_[static_cast<size_t>(i)] += key.bias[i];
  key_bias_.resize(static_cast<size_t>(joined));
  for (int64_t i = 0; i < weights.key.bias.size(); ++i) key_bias_[static_cast<size_t>(i)] = weights.key.bias[i];
}

void LogitSplit::Add(const Tensor<double>& tokens, LogitScratch& scratch) {
  Require(tokens.shape() == positions_.shape(), "split logits: expected tokens of {}, got {}", positions_.shape(),
          tokens.shape());
  auto content = Tensor<float>::Uninitialised(tokens.shape());
  for (int64_t i = 0; i < tokens.size(); ++i) content[i] = static_cast<float>(tokens[i] - positions_[i]);
  const Tensor<float> query = Project(content, query_);
  Tensor<float> key = Project(content, key_);
  std::vector<double> key_mean = TakeMean(key);
  for (size_t i = 0; i < key_mean.size(); ++i) key_mean[i] += key_mean_[i];
  const int64_t E = query_.dim(0) / heads_;
  scratch.tiles.resize(std::max(scratch.tiles.size(), static_cast<size_t>(NumThreads())));
  ParallelTasks(heads_, [&](int64_t h, int thread) {
    const auto head = [&](const Tensor<float>& of) { return of.view().slice(1, h * E, (h + 1) * E); };
    const Sides queries = {head(query_position_), head(query)}, keys = {head(key_position_), head(key)};
    Sums& sums = sums_[static_cast<size_t>(h)];
    AddParts(queries, keys, scratch.tiles[static_cast<size_t>(thread)], sums);
    if (!causal_) AddMeanQuery(queries, keys, sums);
    AddConstants(queries, keys, h, key_mean, sums);
  });
}

void LogitSplit::AddParts(const Sides& query, const Sides& key, std::array<Tensor<float>, kLogitParts>& tile,
                          Sums& sums) const {
  const int64_t N = query[0].dim(0);
  double whole_square = 0;
  for (int64_t begin = 0; begin < N; begin += kTileRows) {
    const int64_t end = std::min(N, begin + kTileRows);
    for (size_t part = 0; part < kLogitParts; ++part) {
      tile[part].Reuse({end - begin, N});
      simd::MatMul<float>(query[part / 2].slice(0, begin, end), simd::Transposed(key[part % 2]), tile[part]);
    }
    for (int64_t row = begin; row < end; ++row) {
      const int64_t first = (row - begin) * N, keys = causal_ ? row + 1 : N;
      for (size_t part = 0; part < kLogitParts && causal_; ++part) CentreRow(tile[part].data() + first, keys);
      for (int64_t i = first; i < first + keys; ++i) {
        double whole = 0;
        for (const Tensor<float>& logits : tile) whole += logits[i];
        whole_square += whole * whole;
        for (size_t part = 0; part < kLogitParts; ++part) {
          const double x = tile[part][i];
          sums.with_whole[part] += x * whole, sums.square[part] += x * x;
        }
      }
    }
  }
  sums.whole += whole_square;
  sums.stored += whole_square;  // AddConstants adds the part constant along a row
}

void LogitSplit::AddMeanQuery(const Sides& query, const Sides& key, Sums& sums) {
  const int64_t N = query[0].dim(0), E = query[0].dim(1);
  std::vector<double> mean(static_cast<size_t>(E));
  for (int64_t i = 0; i < N; ++i) {
    for (int64_t e = 0; e < E; ++e) {
      mean[static_cast<size_t>(e)] +=
          (static_cast<double>(query[0].row(i)[e]) + query[1].row(i)[e]) / static_cast<double>(N);
    }
  }
  for (int64_t j = 0; j < N; ++j) {
    double logit = 0;
    for (int64_t e = 0; e < E; ++e) {
      logit += mean[static_cast<size_t>(e)] * (static_cast<double>(key[0].row(j)[e]) + key[1].row(j)[e]);
    }
    sums.same += static_cast<double>(N) * logit * logit;
  }
}

// S_ij = T_ij + q_i · (the mean of the row's keys with b_K); the terms in b_K are q_i · b_K.
void LogitSplit::AddConstants(const Sides& query, const Sides& key, int64_t head, const std::vector<double>& key_mean,
                              Sums& sums) const {
  const int64_t N = query[0].dim(0), E = query[0].dim(1);
  const double *mean = key_mean.data() + head * E, *bias = key_bias_.data() + head * E;
  std::vector<double> visible(static_cast<size_t>(E));  // Σ of the row's keys, without the mean of all
  double with_mean = 0, with_bias = 0;
  for (int64_t i = 0; i < N; ++i) {
    const int64_t keys = causal_ ? i + 1 : N;
    double mean_term = 0, bias_term = 0;
    for (int64_t e = 0; e < E; ++e) {
      double& sum = visible[static_cast<size_t>(e)];
      if (causal_) sum += static_cast<double>(key[0].row(i)[e]) + key[1].row(i)[e];
      const double q = static_cast<double>(query[0].row(i)[e]) + query[1].row(i)[e];
      mean_term += q * (mean[e] + sum / static_cast<double>(keys)), bias_term += q * bias[e];
    }
    with_mean += static_cast<double>(keys) * mean_term * mean_term;
    with_bias += static_cast<double>(keys) * bias_term * bias_term;
  }
  sums.stored += with_mean;
  sums.bias += with_bias;
}

std::vector<LogitShares> LogitSplit::Shares() const {
  std::vector<LogitShares> all;
  for (const Sums& sums : sums_) {
    LogitShares& shares = all.emplace_back();
    if (sums.stored > 0) shares.key_bias = std::sqrt(sums.bias / sums.stored);
    if (causal_) shares.same = std::numeric_limits<double>::quiet_NaN();
    if (sums.whole == 0) continue;
    if (!causal_) shares.same = sums.same / sums.whole;
    shares.overlap = 1;
    for (size_t part = 0; part < kLogitParts; ++part) {
      shares.share[part] = sums.with_whole[part] / sums.whole;
      shares.overlap -= sums.square[part] / sums.whole;
    }
  }
  return all;
}

}  // namespace qkv::inspect
