// Every edit of scores becomes an edit of operands, so that one product and one softmax serve all: a rank or a gauge
// multiplies queries and keys by small matrices, and the transposed scores come from keys and queries placed beside
// them, (1+t)/2 q·k + (1−t)/2 k·q.
#include "qkv/explore/open_pass.h"

#include <algorithm>

#include "qkv/attention/attention.h"
#include "qkv/core/memory.h"
#include "qkv/core/parallel.h"
#include "qkv/core/pause.h"
#include "qkv/explore/gauge_calls.h"
#include "qkv/model/blocks/finite.h"
#include "qkv/simd/gemm/matmul.h"

namespace qkv::explore {
namespace {

Tensor<float> ToFloat(const Tensor<double>& from) {
  auto to = Tensor<float>::Uninitialised(from.shape());
  std::transform(from.data(), from.data() + from.size(), to.data(), [](double x) { return static_cast<float>(x); });
  return to;
}

Tensor<double> ToDouble(View<const float> from) {
  auto to = Tensor<double>::Uninitialised({from.dim(0), from.dim(1)});
  for (int64_t i = 0; i < from.dim(0); ++i) std::copy_n(from.row(i), from.dim(1), to.view().row(i));
  return to;
}

Tensor<double> Times(const Tensor<double>& a, const Tensor<double>& b) {
  if (a.empty()) return b.Clone();
  Tensor<double> product({a.dim(0), b.dim(1)});
  simd::MatMul<double>(a, b, product);
  return product;
}

Tensor<float> Multiply(View<const float> rows, View<const float> by) {
  auto product = Tensor<float>::Uninitialised({rows.dim(0), by.dim(1)});
  simd::MatMul<float>(rows, by, product);
  return product;
}

// [N, E] as one head of one image.
View<const float> OneHead(View<const float> rows) {
  return {rows.data(), {1, 1, rows.dim(0), rows.dim(1)}, {0, 0, rows.stride(0), 1}};
}

// to[i] = [a · left[i] | b · right[i]]
Tensor<float> SideBySide(View<const float> left, float a, View<const float> right, float b) {
  const int64_t N = left.dim(0), E = left.dim(1);
  auto both = Tensor<float>::Uninitialised({N, 2 * E});
  for (int64_t i = 0; i < N; ++i) {
    float* to = both.view().row(i);
    for (int64_t e = 0; e < E; ++e) to[e] = a * left.row(i)[e], to[E + e] = b * right.row(i)[e];
  }
  return both;
}

// a · x[:, begin of one half] + b · y[:, the other half], [N, E].
Tensor<float> SumHalves(View<const float> x, float a, int64_t x_begin, View<const float> y, float b, int64_t y_begin) {
  const int64_t N = x.dim(0), E = x.dim(1) / 2;
  auto sum = Tensor<float>::Uninitialised({N, E});
  for (int64_t i = 0; i < N; ++i) {
    float* to = sum.view().row(i);
    for (int64_t e = 0; e < E; ++e) to[e] = a * x.row(i)[x_begin + e] + b * y.row(i)[y_begin + e];
  }
  return sum;
}

void CopyInto(View<const float> from, View<float> to) {
  for (int64_t i = 0; i < from.dim(0); ++i) std::copy_n(from.row(i), from.dim(1), to.row(i));
}

void FillZero(View<float> rows) {
  for (int64_t i = 0; i < rows.dim(0); ++i) std::fill_n(rows.row(i), rows.dim(1), 0.0f);
}

}  // namespace

// One head as edited: the operands of its scores.
struct OpenPass::Head {
  Tensor<float> query_map, key_map;  // [r, r], or empty
  Tensor<float> own_query, own_key;  // what the views below are of, if not the layer's
  View<const float> query, key;      // [N, r] or [N, 2r]
  bool both = false;                 // of width 2r: scores are direct · q·k + turned · k·q
  float direct = 1, turned = 0;
};

void OpenPass::Prepare(const nn::OpenOperands& operands, int64_t h, Head& head) {
  const HeadEdit& edit = edits_.Of(operands.block, h);
  head.query = operands.query[0][h], head.key = operands.key[0][h];
  const int64_t r = head.query.dim(1);
  Tensor<double> query_map, key_map;
  if (edit.rank) {
    const bool exact = edit.t != 1;
    query_map = edit.rank_by_data
                    ? ProjectorOf(FactorScores(ToDouble(head.query), ToDouble(head.key), !exact), *edit.rank)
                    : ProjectorOf(model_.Factors(operands.block, h, exact), *edit.rank);
  }
  for (const GaugeEdit& gauge : edit.gauges) {
    const GaugeMaps maps = MakeGauge(r, gauge.strength, SeedOfHead(gauge.seed, operands.block, h));
    query_map = Times(query_map, maps.query), key_map = Times(key_map, maps.key);
  }
  if (!query_map.empty()) {
    head.query_map = ToFloat(query_map);
    head.query = head.own_query = Multiply(head.query, head.query_map);
  }
  if (!key_map.empty()) {
    head.key_map = ToFloat(key_map);
    head.key = head.own_key = Multiply(head.key, head.key_map);
  }
  if (edit.t == 1) return;
  head.both = true;
  head.direct = static_cast<float>((1 + edit.t) / 2), head.turned = static_cast<float>((1 - edit.t) / 2);
  Tensor<float> query = SideBySide(head.query, head.direct, head.key, head.turned);
  head.own_key = SideBySide(head.key, 1, head.query, 1);
  head.own_query = std::move(query);
  head.query = head.own_query, head.key = head.own_key;
}

// Called before heads run in parallel: factors are made once.
void OpenPass::PrepareFactors(const nn::OpenOperands& operands) {
  for (int64_t h = 0; h < operands.query.dim(1); ++h) {
    const HeadEdit& edit = edits_.Of(operands.block, h);
    if (edit.rank && !edit.rank_by_data) model_.Factors(operands.block, h, edit.t != 1);
  }
}

void OpenPass::Forward(const nn::OpenOperands& operands, View<float> joined) {
  Pause();
  const int64_t H = operands.query.dim(1), N = operands.query.dim(2);
  const auto place = std::find(kept_.begin(), kept_.end(), operands.block);
  const View<float> keep =
      place == kept_.end() ? View<float>() : attention_.view()[std::distance(kept_.begin(), place)];
  PrepareFactors(operands);
  std::vector<Tensor<float>> scratch(static_cast<size_t>(NumThreads()));
  const attention::Options<float> options{.scale = operands.scale,
                                          .mask = visible_.empty() ? View<const bool>() : visible_.view()};
  ParallelTasks(H, [&](int64_t h, int thread) {
    const View<float> out = joined[0][h];
    if (edits_.Of(operands.block, h).removed) FillZero(out);
    if (edits_.Of(operands.block, h).removed && keep.empty()) return;
    Head head;
    Prepare(operands, h, head);
    Tensor<float>& own = scratch[static_cast<size_t>(thread)];
    if (keep.empty()) own.Reuse({N, N});
    const View<float> weights = keep.empty() ? own.view() : keep[h];
    attention::AttentionWeights<float>(OneHead(head.query), OneHead(head.key), options, 0, N,
                                       weights.reshape({1, 1, N, N}));
    if (!edits_.Of(operands.block, h).removed) {
      simd::MatMul<float>(View<const float>(weights), operands.value[0][h], out);
    }
  });
}

// carried: what this head adds to the row of R, [N].
void OpenPass::HeadBackward(const nn::OpenOperands& operands, int64_t h, View<const float> djoined, View<float> dquery,
                            View<float> dkey, View<float> dvalue, View<float> carried) {
  const int64_t N = dquery.dim(0);
  std::fill_n(carried.data(), N, 0.0f);
  if (edits_.Of(operands.block, h).removed) return FillZero(dquery), FillZero(dkey), FillZero(dvalue);
  Head head;
  Prepare(operands, h, head);
  auto weights = Tensor<float>::Uninitialised({N, N}), gradient = Tensor<float>::Uninitialised({N, N});
  const attention::Options<float> options{.scale = operands.scale,
                                          .mask = visible_.empty() ? View<const bool>() : visible_.view()};
  attention::AttentionWeights<float>(OneHead(head.query), OneHead(head.key), options, 0, N,
                                     weights.view().reshape({1, 1, N, N}));
  simd::MatMul<float>(djoined, simd::Transposed(operands.value[0][h]), gradient);  // dA = dO Vᵀ
  simd::MatMul<float>(simd::Transposed(View<const float>(weights)), djoined, dvalue);
  // dS = A ∘ (dA − rowsum(A ∘ dA)), in place of dA.
  for (int64_t q = 0; q < N; ++q) {
    const float* a = weights.view().row(q);
    float* d = gradient.view().row(q);
    double sum = 0;
    for (int64_t k = 0; k < N; ++k) {
      sum += static_cast<double>(a[k]) * static_cast<double>(d[k]);
      carried.data()[k] += row_[q] * std::max(0.0f, a[k] * d[k]);
    }
    for (int64_t k = 0; k < N; ++k) d[k] = operands.scale * a[k] * (d[k] - static_cast<float>(sum));
  }
  Tensor<float> dq = Multiply(gradient, head.key),
                dk = Multiply(simd::Transposed(View<const float>(gradient)), head.query);
  if (head.both) {
    const int64_t r = dq.dim(1) / 2;
    Tensor<float> direct = SumHalves(dq, head.direct, 0, dk, 1, r);
    // dk holds the factors of its queries already.
    dk = SumHalves(dk, 1, 0, dq, head.turned, r);
    dq = std::move(direct);
  }
  if (!head.query_map.empty()) dq = Multiply(dq, simd::Transposed(head.query_map.view()));
  if (!head.key_map.empty()) dk = Multiply(dk, simd::Transposed(head.key_map.view()));
  CopyInto(dq, dquery), CopyInto(dk, dkey);
}

void OpenPass::Backward(const nn::OpenOperands& operands, View<const float> djoined, View<float> dquery,
                        View<float> dkey, View<float> dvalue) {
  Pause();
  const int64_t H = operands.query.dim(1), N = operands.query.dim(2);
  PrepareFactors(operands);
  Tensor<float> carried({H, N});
  ParallelTasks(H, [&](int64_t h, int) {
    HeadBackward(operands, h, djoined[0][h], dquery[0][h], dkey[0][h], dvalue[0][h], carried.view()[h]);
  });
  for (int64_t h = 0; h < H; ++h) {
    for (int64_t k = 0; k < N; ++k) row_[k] += carried[h * N + k] / static_cast<float>(H);
  }
}

void OpenPass::RequirePass(View<const float> pixels, int64_t kept, bool gradients) {
  const model::VitConfig& c = model_.config();
  Require(pixels.shape() == Shape({1, c.channels, c.image_height, c.image_width}),
          "edits: a pass with edits has the size that the model was made for, [1, {}, {}, {}], got {}", c.channels,
          c.image_height, c.image_width, pixels.shape());
  const auto N = static_cast<double>(c.tokens()), H = static_cast<double>(c.block.attention.heads);
  const double matrices = static_cast<double>(kept) * H + (gradients ? 3.0 : 1.0) * NumThreads();
  // Memory that a block keeps for the backward pass: inputs, norms, queries, keys, values, sums and both sides of the
  // MLP.
  const double each =
      N * static_cast<double>(10 * c.block.width + 4 * c.block.mlp.width + 6 * c.block.attention.joined_width());
  const double activations =
      gradients ? each * static_cast<double>(c.depth + 1) : 2 * each + N * static_cast<double>(c.block.width * c.depth);
  RequireMemory(sizeof(float) * (matrices * N * N + activations),
                fmt::format("a pass of {} tokens with edits or gradients", c.tokens()));
}

Tensor<float> OpenPass::Run(View<const float> pixels, bool gradients) {
  const model::VitConfig& c = model_.config();
  const int64_t N = c.tokens();
  visible_ = {};
  if (!edits_.hidden().empty()) {
    visible_ = Tensor<bool>({1, 1, N, N});
    std::fill_n(visible_.data(), N * N, true);
    for (const int64_t token : edits_.hidden()) {
      for (int64_t q = 0; q < N; ++q) visible_[q * N + token] = q == token;
    }
  }
  Tensor<float> logits({1, c.outputs()});
  model_.network().Forward(model_.weights(), pixels, {.checkpointing = !gradients, .all_rows = true, .open = this},
                           workspace_.network, logits);
  Require(model::AllFinite(logits.data(), logits.size()), "a pass with edits: the logits hold NaN or infinity");
  return logits;
}

Tensor<float> OpenPass::Forward(View<const float> pixels, std::span<const int64_t> kept) {
  const model::VitConfig& c = model_.config();
  RequirePass(pixels, std::ssize(kept), false);
  kept_.assign(kept.begin(), kept.end());
  const int64_t N = c.tokens();
  attention_ =
      kept.empty() ? Tensor<float>() : Tensor<float>::Uninitialised({std::ssize(kept), c.block.attention.heads, N, N});
  return Run(pixels, false);
}

View<const float> OpenPass::Tokens(int64_t block) const {
  const View<const float> tokens =
      block + 1 < model_.config().depth ? workspace_.network.Hidden(block + 1) : workspace_.network.Tokens();
  return tokens[0];
}

Tensor<float> OpenPass::Relevance(View<const float> pixels, int64_t output) {
  const model::VitConfig& c = model_.config();
  Require(c.classes > 0, "relevance: {} has no classes whose relevance could be traced", c.architecture);
  Require(output >= 0 && output < c.classes, "relevance: expected a class from 0 to {}, got {}", c.classes - 1, output);
  RequirePass(pixels, 0, true);
  kept_.clear(), attention_ = {};
  const Tensor<float> logits = Run(pixels, true);
  const int64_t N = c.tokens();
  row_ = Tensor<float>({N});
  if (c.class_token) {
    row_[0] = 1;
  } else {
    std::fill(row_.data() + c.prefix(), row_.data() + N, 1.0f / static_cast<float>(c.patches()));
  }
  Tensor<float> dlogits(logits.shape());
  dlogits[output] = 1;
  model_.network().Backward(model_.weights(), dlogits, workspace_.network, {});
  Require(model::AllFinite(row_.data(), row_.size()), "relevance: the gradients hold NaN or infinity");
  return std::move(row_);
}

}  // namespace qkv::explore
