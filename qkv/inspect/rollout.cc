#include "qkv/inspect/rollout.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <type_traits>

#include "qkv/core/memory.h"
#include "qkv/core/parallel.h"
#include "qkv/model/vision/where_not_finite.h"
#include "qkv/simd/gemm/matmul.h"

namespace qkv::inspect {
namespace {

// Finds the value of a given rank among many that are visited several times but never stored. Non-negative floats sort
// like their bits: each pass counts the next 16 bits of the values that match the bits known so far.
template <typename T>
class RankedValue {
 public:
  using Bits = std::conditional_t<std::is_same_v<T, float>, uint32_t, uint64_t>;
  static constexpr int kPasses = sizeof(Bits) / 2;

  explicit RankedValue(int64_t rank) : rank_(rank), counts_({NumThreads(), kBuckets}) {}

  /// Thread-safe within a parallel loop.
  void Add(std::span<const T> values, int thread) {
    int64_t* const counts = counts_.view().row(thread);
    const int above = shift_ + 16;
    for (const T value : values) {
      const Bits bits = std::bit_cast<Bits>(value);
      const bool agrees = above == 8 * sizeof(Bits) || bits >> above == known_ >> above;
      if (agrees) ++counts[bits >> shift_ & (kBuckets - 1)];
    }
  }

  /// Called after all values were added.
  void EndPass() {
    for (Bits bucket = 0; bucket < kBuckets; ++bucket) {
      int64_t count = 0;
      for (int64_t t = 0; t < counts_.dim(0); ++t) count += *counts_.view().at(t, bucket);
      if (rank_ < count) {
        known_ |= bucket << shift_;
        break;
      }
      rank_ -= count;
    }
    shift_ -= 16;
    std::fill_n(counts_.data(), counts_.size(), 0);
  }

  T value() const { return std::bit_cast<T>(known_); }

 private:
  static constexpr Bits kBuckets = Bits{1} << 16;
  int64_t rank_;
  Tensor<int64_t> counts_;  // [threads, buckets]
  Bits known_ = 0;
  int shift_ = 8 * sizeof(Bits) - 16;
};

template <typename T>
class Rollout {
 public:
  Rollout(const model::VitConfig& config, const RolloutRequest& request, int64_t N)
      : config_(config), request_(request), N_(N), rows_(FirstRows()), next_(rows_.shape()), sums_({N}) {
    heads_.resize(static_cast<size_t>(config.block.attention.heads));
    std::iota(heads_.begin(), heads_.end(), 0);
  }

  // rows ← rows · Ã of a block. Signature of weights_of: (std::span<const nn::WeightsRequest<T>>).
  template <typename WeightsOf>
  void StepBack(WeightsOf weights_of) {
    const auto discarded = static_cast<int64_t>(static_cast<double>(N_ * N_) * request_.discard);
    RankedValue<T> threshold(discarded);
    std::vector<nn::WeightsRequest<T>> passes;  // computed one after the other from the same queries and keys
    const auto add_pass = [&](auto use) {
      passes.push_back({.row_begin = 0, .row_end = N_, .visit = [this, use](int64_t row, View<const T> weights) {
                          Fuse(weights);
                          use(row);
                        }});
    };
    for (int pass = 0; pass < RankedValue<T>::kPasses && discarded > 0; ++pass) {
      add_pass([&](int64_t row) {
        ParallelTasks(fused_.dim(0), [&](int64_t r, int thread) {
          threshold.Add({fused_.view().row(r), static_cast<size_t>(N_)}, thread);
        });
        if (row + fused_.dim(0) == N_) threshold.EndPass();
      });
    }
    add_pass([&](int64_t row) {
      if (discarded > 0) Discard(row, threshold.value());
      Carry(row);
    });
    std::fill_n(next_.data(), next_.size(), T{0});
    weights_of(passes);
    std::swap(rows_, next_);
  }

  Tensor<T> Take() { return std::move(rows_); }

 private:
  // The initial rows of the query: [Q, N].
  Tensor<T> FirstRows() const {
    const Query& query = request_.query;
    const bool all = query.kind == Query::Kind::kAll;
    Tensor<T> rows({all ? N_ : 1, N_});
    if (all) {
      for (int64_t q = 0; q < N_; ++q) *rows.view().at(q, q) = 1;
    } else if (query.kind == Query::Kind::kMean) {
      const int64_t prefix = config_.prefix();
      std::fill(rows.data() + prefix, rows.data() + N_, T(1) / static_cast<T>(N_ - prefix));
    } else {
      rows[query.token] = 1;
    }
    return rows;
  }

  // Fuses the heads' rows into fused_: [rows, N].
  void Fuse(View<const T> weights) {
    fused_.Reuse({weights.dim(2), N_});
    ParallelFor(N_, kColumnsPerTask, [&](int64_t begin, int64_t end) {
      for (int64_t r = 0; r < weights.dim(2); ++r) {
        FuseHeads<T>(weights, heads_, request_.fusion, r, begin, end, fused_.view().row(r));
      }
    });
  }

  void Discard(int64_t row, T threshold) {
    const bool keeps_first = row == 0 && config_.class_token;
    const T first = fused_[0];
    ParallelFor(fused_.dim(0), 16, [&](int64_t begin, int64_t end) {
      for (T& weight : fused_.span().subspan(begin * N_, (end - begin) * N_)) {
        if (weight < threshold) weight = 0;
      }
    });
    if (keeps_first) fused_[0] = first;
  }

  // next += rows[:, tile] · Ã[tile, :].
  void Carry(int64_t row) {
    const int64_t n = fused_.dim(0), Q = rows_.dim(0);
    ParallelFor(n, 16, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const T* weights = fused_.view().row(r);
        sums_[row + r] = (std::accumulate(weights, weights + N_, T{0}) + 1) / 2;
      }
    });
    shares_.Reuse({Q, n});
    ParallelFor(Q, 16, [&](int64_t begin, int64_t end) {
      for (int64_t q = begin; q < end; ++q) {
        for (int64_t r = 0; r < n; ++r) {
          const T share = *rows_.view().at(q, row + r) / (2 * sums_[row + r]);
          *shares_.view().at(q, r) = share;
          *next_.view().at(q, row + r) += share;  // ½I
        }
      }
    });
    simd::MatMul<T>(shares_, fused_, next_, /*accumulate=*/true);  // ½A
  }

  const model::VitConfig& config_;
  const RolloutRequest& request_;
  const int64_t N_;
  std::vector<int64_t> heads_;
  Tensor<T> rows_, next_;  // [Q, N]
  Tensor<T> sums_;         // [N], of the rows of ½A + ½I
  Tensor<T> fused_;        // [rows of a piece, N]
  Tensor<T> shares_;       // [Q, rows of a piece]
};

void CheckRequest(const RolloutRequest& request, const model::VitConfig& c, int64_t N) {
  const int64_t first = request.first_block, last = request.last_block;
  Require(c.block.attention.maps() == 1,
          "rollout: weights of {} attention may be negative, so they are no shares of the tokens that are read",
          model::Name(c.block.attention.kind));
  Require(first >= 0 && first <= last && last < c.depth, "rollout: expected blocks within 0 to {}, got {} to {}",
          c.depth - 1, first, last);
  Require(request.discard >= 0 && request.discard < 1, "rollout: expected a fraction to discard in [0, 1), got {}",
          request.discard);
  const int64_t token = request.query.token;
  Require(token >= 0 && token < N, "rollout: expected a token from 0 to {}, got {}", N - 1, token);
}

}  // namespace

template <typename T>
Tensor<T> AttentionRollout(const model::Vit<T>& vit, View<const T> pixels, const RolloutRequest& request,
                           model::Workspace<T>& workspace) {
  CheckPixels(pixels);
  const model::VitConfig& c = vit.config();
  const int64_t N = vit.TokensFor(pixels.dim(2), pixels.dim(3)), first = request.first_block, last = request.last_block;
  CheckRequest(request, c, N);
  const double of_token = static_cast<double>((last - first + 1) * c.block.width);
  const double rows = request.query.kind == Query::Kind::kAll ? 3 * static_cast<double>(N) : 3;
  RequireMemory(sizeof(T) * static_cast<double>(N) * (of_token + rows), fmt::format("rollout: {} tokens", N));
  auto hidden = Tensor<T>::Uninitialised({last - first + 1, 1, N, c.block.width});
  model::Outputs<T> outputs;
  for (int64_t block = first; block <= last; ++block) outputs.hidden.push_back({block, hidden.view()[block - first]});
  vit.Forward(pixels, workspace, outputs);
  Rollout<T> rollout(c, request, N);
  for (int64_t block = last; block >= first; --block) {
    rollout.StepBack([&](std::span<const nn::WeightsRequest<T>> passes) {
      vit.BlockWeights(hidden.view()[block - first], block, workspace, passes);
    });
  }
  return rollout.Take();
}

template <typename T>
Tensor<T> AttentionRollout(View<const T> weights, const model::VitConfig& c, const RolloutRequest& request) {
  Require(weights.rank() == 4 && weights.dense() && weights.dim(0) == c.depth &&
              weights.dim(1) == c.block.attention.heads && weights.dim(2) == weights.dim(3),
          "rollout: expected weights [{}, {}, N, N], got {}", c.depth, c.block.attention.heads, weights.shape());
  const int64_t N = weights.dim(3);
  CheckRequest(request, c, N);
  Rollout<T> rollout(c, request, N);
  for (int64_t block = request.last_block; block >= request.first_block; --block) {
    rollout.StepBack([&](std::span<const nn::WeightsRequest<T>> passes) {
      for (const nn::WeightsRequest<T>& pass : passes) pass.visit(0, weights.slice(0, block, block + 1));
    });
  }
  return rollout.Take();
}

template Tensor<float> AttentionRollout(const model::Vit<float>&, View<const float>, const RolloutRequest&,
                                        model::Workspace<float>&);
template Tensor<double> AttentionRollout(const model::Vit<double>&, View<const double>, const RolloutRequest&,
                                         model::Workspace<double>&);
template Tensor<float> AttentionRollout(View<const float>, const model::VitConfig&, const RolloutRequest&);
template Tensor<double> AttentionRollout(View<const double>, const model::VitConfig&, const RolloutRequest&);

Tensor<float> AttentionRollout(const model::Model& model, const image::Image& image) {
  const Tensor<float> pixels = model.Pixels(image);
  const TokenGrid grid = MakeTokenGrid(model.config(), pixels.dim(2), pixels.dim(3));
  model::Workspace<float> workspace;
  const Tensor<float> row = AttentionRollout<float>(
      model.vit(), pixels, {.last_block = model.config().depth - 1, .query = ParseQuery("", grid)}, workspace);
  model::RequireFinite(model.vit(), pixels, row, "rollout");
  auto map = Tensor<float>::Uninitialised({grid.height, grid.width});
  std::copy_n(row.data() + grid.prefix.size(), map.size(), map.data());
  return map;
}

}  // namespace qkv::inspect
