// ONNX's operators RotaryEmbedding, LayerNormalization, RMSNormalization, Softmax and Gelu by qkv's loops over rows.
#include <utility>

#include "qkv/nn/rotary.h"
#include "qkv/simd/rows/elementwise.h"
#include "qkv/simd/rows/rotary.h"
#include "tests/conformance/onnx_case.h"

namespace qkv::conformance {
namespace {

int Axis(const OnnxCase& c, int rank) {
  const int axis = c.Attribute("axis", -1);
  return axis < 0 ? axis + rank : axis;
}

// The product of the extents [begin, end).
int64_t Extent(const Shape& shape, int begin, int end) {
  int64_t product = 1;
  for (int axis = begin; axis < end; ++axis) product *= shape[axis];
  return product;
}

// Cosines and sines of the tokens of entry b, [N, 2, R], as simd::RotatePairs reads them.
Tensor<float> RotaryRows(const OnnxCase& c, int64_t b, int64_t N, int64_t R) {
  const auto cos = c.Get<float>("cos_cache"), sin = c.Get<float>("sin_cache");
  Tensor<int64_t> positions;
  if (c.Has("position_ids")) positions = c.Raw<int64_t>("position_ids");
  Tensor<float> table({N, 2, R});
  for (int64_t n = 0; n < N; ++n) {
    const int64_t row = positions.size() > 0 ? positions[b * N + n] : b * N + n;
    for (int64_t f = 0; f < R; ++f) {
      table[(2 * n) * R + f] = cos[row * (R / 2) + f / 2];
      table[(2 * n + 1) * R + f] = (f % 2 == 0 ? -1.0f : 1.0f) * sin[row * (R / 2) + f / 2];
    }
  }
  return table;
}

}  // namespace

void RunOnnxRotary(const OnnxCase& c) {
  const auto input = c.Get<float>("input");
  const Shape& s = input.shape();
  const bool joined = s.rank() == 3;  // [B, N, H · E], else [B, H, N, E]
  const auto heads = joined ? c.Attribute<int64_t>("num_heads", 1) : int64_t{1};
  const int64_t B = s[0], N = joined ? s[1] : s[2], E = s[s.rank() - 1] / heads;
  const auto partial = c.Attribute<int64_t>("rotary_embedding_dim", 0);
  const int64_t R = partial > 0 ? partial : E, sequences = input.size() / (N * heads * E);
  ASSERT_TRUE(R == E || heads == 1) << c.name();
  // qkv pairs neighbours; halves are reordered to them and back.
  std::vector<int64_t> order = nn::HalfSplitToNeighbours(R);
  if (c.Attribute("interleaved", 0) != 0) {
    for (int64_t f = 0; f < R; ++f) order[static_cast<size_t>(f)] = f;
  }
  Tensor<float> x(s), y(s), out(s);
  const auto source = [&](int64_t i) {
    const int64_t f = i % E;
    return i - f + (f < R ? order[static_cast<size_t>(f)] : f);
  };
  for (int64_t i = 0; i < x.size(); ++i) x[i] = y[i] = input[source(i)];
  for (int64_t sequence = 0; sequence < sequences; ++sequence) {
    const auto table = RotaryRows(c, sequence / (sequences / B), N, R);
    const int64_t at = sequence * N * heads * E;
    simd::RotatePairs<float>({x.data() + at, heads * E, table.data(), N, heads, R, y.data() + at, heads * E}, false);
  }
  for (int64_t i = 0; i < out.size(); ++i) out[source(i)] = y[i];
  const double factor = Greatest(c.Get<float>("cos_cache")) + Greatest(c.Get<float>("sin_cache"));
  c.Expect("output", out, 4 * 0x1p-24 * factor * Greatest(input));  // two products and a sum, on either side
}

void RunOnnxNorm(const OnnxCase& c) {
  const bool rms = c.op() == "RMSNormalization";
  const auto x = c.Get<float>("X"), gamma = c.Get<float>("W");
  Tensor<float> beta;
  if (c.Has("B")) beta = c.Get<float>("B");
  const int rank = x.shape().rank(), axis = Axis(c, rank);
  const int64_t rows = Extent(x.shape(), 0, axis), D = Extent(x.shape(), axis, rank);
  const simd::NormRule<float> rule(c.Attribute("epsilon", 1e-5f), rms ? simd::NormKind::kRms : simd::NormKind::kLayer);
  Tensor<float> y(x.shape());
  simd::NormRows(x.data(), D, rows, D, gamma.data(), c.Has("B") ? beta.data() : nullptr, rule, y.data(), D);
  Tensor<float> moments({rows, 2});
  simd::RowMoments(x.data(), D, rows, D, rule, moments.data());
  double rstd = 0;
  for (int64_t r = 0; r < rows; ++r) rstd = std::max(rstd, static_cast<double>(moments[2 * r + 1]));
  // The mean is a sum of D terms; so is the variance, whose relative error the root halves. Both sides.
  constexpr double u = 0x1p-24;
  const double mean_bound = 2 * DotBound(D, Greatest(x), u), variance_bound = 2 * DotBound(D, 1, u) + 8 * u;
  const double normed = 2 * Greatest(x) * rstd;
  c.Expect("Y", y,
           Greatest(gamma) * (mean_bound * rstd + normed * variance_bound) +
               8 * u * (Greatest(gamma) * normed + (c.Has("B") ? Greatest(beta) : 0)));
  if (rms) return;
  Tensor<float> mean(c.Get<float>("Mean").shape()), inverse(mean.shape());
  for (int64_t r = 0; r < rows; ++r) mean[r] = moments[2 * r], inverse[r] = moments[2 * r + 1];
  c.Expect("Mean", mean, mean_bound);
  c.Expect("InvStdDev", inverse, rstd * (variance_bound + mean_bound * rstd));
}

void RunOnnxSoftmax(const OnnxCase& c) {
  const auto x = c.Get<float>("x");
  const int rank = x.shape().rank(), axis = Axis(c, rank);
  const int64_t n = x.shape()[axis], inner = Extent(x.shape(), axis + 1, rank);
  Tensor<float> y(x.shape()), row({n});
  for (int64_t first = 0; first < x.size(); ++first) {
    if (first / inner % n != 0) continue;
    for (int64_t i = 0; i < n; ++i) row[i] = x[first + i * inner];
    simd::Softmax(row.data(), n);
    for (int64_t i = 0; i < n; ++i) y[first + i * inner] = row[i];
  }
  // Differences to the greatest entry are exact or as large as the entries; then an exponential, a sum and a quotient.
  double spread = 0;
  for (const float value : x.span()) spread = std::max(spread, Greatest(x) - std::abs(static_cast<double>(value)));
  c.Expect("y", y, 2 * (DotBound(n, 1, 0x1p-24) + 0x1p-24 * (spread + 8)));
}

void RunOnnxGelu(const OnnxCase& c) {
  const auto x = c.Get<float>("x");
  Tensor<float> y(x.shape());
  const bool tanh = c.Attribute<std::string>("approximate", "none") == "tanh";
  simd::Activate(tanh ? simd::Activation::kGeluTanh : simd::Activation::kGelu, x.data(), y.data(), x.size());
  c.Expect("y", y, 16 * 0x1p-24 * (1 + Greatest(x)));
}

}  // namespace qkv::conformance
