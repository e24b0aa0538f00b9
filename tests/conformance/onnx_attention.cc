// ONNX's operators Attention and FlexAttention by qkv's attention: which option each of their inputs and attributes is.
#include <limits>
#include <optional>
#include <utility>

#include "qkv/attention/attention.h"
#include "tests/conformance/onnx_case.h"

namespace qkv::conformance {
namespace {

using attention::Causal;
using attention::Options;

// Views [B, N, heads · E] as [B, heads, N, E]; a tensor of four axes stays as it is.
template <typename T>
View<T> Heads(View<T> x, int64_t heads) {
  if (x.rank() == 4) return x;
  const int64_t N = x.dim(1), E = x.dim(2) / heads;
  return View<T>(x.data(), {x.dim(0), heads, N, E}, {N * heads * E, E, heads * E, 1});
}

// [B, H, N, E] of past tokens and of new ones, one after the other.
template <typename T>
Tensor<T> Join(const Tensor<T>& past, View<const T> x) {
  const int64_t B = x.dim(0), H = x.dim(1), P = past.size() == 0 ? 0 : past.shape()[2], N = P + x.dim(2), E = x.dim(3);
  Tensor<T> all({B, H, N, E});
  for (int64_t b = 0; b < B; ++b) {
    for (int64_t h = 0; h < H; ++h) {
      for (int64_t n = 0; n < N; ++n) {
        const T* from = n < P ? past.data() + ((b * H + h) * P + n) * E : x.at(b, h, n - P);
        std::copy_n(from, E, all.data() + ((b * H + h) * N + n) * E);
      }
    }
  }
  return all;
}

// A mask of any rank, in four axes and padded to N_k keys.
template <typename T>
Tensor<T> Padded(const Tensor<T>& mask, int64_t N_k, T hidden) {
  const Shape& s = mask.shape();
  int64_t extents[3] = {1, 1, 1};
  for (int axis = 0; axis + 1 < s.rank(); ++axis) extents[4 - s.rank() + axis] = s[axis];
  Tensor<T> padded({extents[0], extents[1], extents[2], N_k});
  const int64_t stored = s[s.rank() - 1];
  for (int64_t row = 0; row < padded.size() / N_k; ++row) {
    for (int64_t j = 0; j < N_k; ++j) padded[row * N_k + j] = j < stored ? mask[row * stored + j] : hidden;
  }
  return padded;
}

// Inputs of one call, and the bounds that follow from their size.
template <typename T>
struct Inputs {
  Tensor<T> q_stored, k_stored, v_stored;
  View<const T> q;    // [B, H, N_q, E]
  Tensor<T> k, v;     // [B, H_kv, N_k, E], past keys included
  Tensor<T> bias;     // or empty
  Tensor<bool> mask;  // or empty
  Tensor<int64_t> lengths;
  Options<T> options;
  double roundoff = 0;  // of the case's type
  static constexpr double kRoundoff = sizeof(T) == 4 ? 0x1p-24 : 0x1p-53;

  int64_t B() const { return q.dim(0); }
  int64_t H() const { return q.dim(1); }
  int64_t N_q() const { return q.dim(2); }
  int64_t N_k() const { return k.shape()[2]; }

  // Greatest Euclidean norm of a row.
  static double Norm(View<const T> x) {
    double greatest = 0;
    for (int64_t row = 0; row < x.dim(0) * x.dim(1) * x.dim(2); ++row) {
      const T* r = x.at(row / x.dim(2) / x.dim(1), row / x.dim(2) % x.dim(1), row % x.dim(2));
      double sum = 0;
      for (int64_t e = 0; e < x.dim(3); ++e) sum += static_cast<double>(r[e]) * r[e];
      greatest = std::max(greatest, sum);
    }
    return std::sqrt(greatest);
  }
  // The greatest score: |q||k| bounds Σ|q k|, by Cauchy and Schwarz.
  double ScoreSize() const {
    const double scale = options.scale != 0 ? std::abs(static_cast<double>(options.scale)) : 1 / std::sqrt(q.dim(3));
    return Norm(q) * Norm(k) * scale;
  }
  double LargestTerm() const {
    double bias_size = 0;
    for (const T x : bias.span()) {
      if (!std::isinf(x)) bias_size = std::max(bias_size, std::abs(static_cast<double>(x)));
    }
    return ScoreSize() + bias_size;
  }
  // Greatest errors, ours and theirs together. Sums are at least float on either side, of roundoff u.
  double ScoreBound() const {
    const double u = kRoundoff;
    return 2 * (DotBound(q.dim(3), ScoreSize(), u) + 8 * u * LargestTerm());
  }
  // In 16 bits ONNX rounds queries, keys and scores, which shifts the logarithms of weights, then weights and outputs.
  double WeightBound() const {
    const double rounded = roundoff > kRoundoff ? roundoff * (2 + 3 * LargestTerm()) : 0;
    return 2 * ScoreBound() + 2 * DotBound(N_k(), 1, kRoundoff) + 16 * kRoundoff + rounded;
  }
  double OutputBound() const { return Greatest(v) * (WeightBound() + 2 * DotBound(N_k(), 1, kRoundoff)); }
};

template <typename T>
Inputs<T> Read(const OnnxCase& c) {
  Inputs<T> in;
  in.q_stored = c.Get<T>("Q"), in.k_stored = c.Get<T>("K"), in.v_stored = c.Get<T>("V");
  in.q = Heads<const T>(std::as_const(in.q_stored).view(), c.Attribute<int64_t>("q_num_heads", 1));
  const auto key_heads = c.Attribute<int64_t>("kv_num_heads", 1);
  const auto past = [&](const char* name) { return c.Has(name) ? c.Get<T>(name) : Tensor<T>({0}); };
  in.k = Join<T>(past("past_key"), Heads<const T>(std::as_const(in.k_stored).view(), key_heads));
  in.v = Join<T>(past("past_value"), Heads<const T>(std::as_const(in.v_stored).view(), key_heads));
  in.roundoff = c.Roundoff("Q");
  in.options.scale = c.Attribute("scale", T{0});
  return in;
}

// Options that limit which keys a query sees.
template <typename T>
void ReadMasks(const OnnxCase& c, Inputs<T>& in) {
  Options<T>& options = in.options;
  if (c.Has("attn_mask") && c.dtype("attn_mask") == DType::kBool) {
    in.mask = Padded(c.Raw<bool>("attn_mask"), in.N_k(), false), options.mask = in.mask;
  } else if (c.Has("attn_mask")) {
    in.bias = Padded(c.Get<T>("attn_mask"), in.N_k(), -std::numeric_limits<T>::infinity()), options.bias = in.bias;
  }
  const bool causal = c.Attribute<int>("is_causal", 0) != 0;
  if (causal) options.causal = Causal::kTopLeft;
  if (c.Has("nonpad_kv_seqlen")) {
    in.lengths = c.Raw<int64_t>("nonpad_kv_seqlen"), options.key_lengths = in.lengths;
    if (causal) options.causal = Causal::kBottomRight;
  }
  options.window_left = c.Attribute<int64_t>("left_window_size", -1);
  options.window_right = c.Attribute<int64_t>("right_window_size", -1);
  ASSERT_TRUE(causal || in.lengths.size() == 0 || (options.window_left < 0 && options.window_right < 0))
      << c.name() << ": positions of queries from lengths need causal order in qkv";
  if (c.Has("past_key")) options.first_position = in.N_k() - in.k_stored.shape()[in.k_stored.shape().rank() - 2];
}

// qk_matmul_output: weights, or the scores they come from, as log(weight) + log-sum-exp.
template <typename T>
Tensor<T> Scores(const Inputs<T>& in, int mode) {
  Options<T> options = in.options;
  if (mode < 2) {  // before bias and masks, and 0 before the soft cap
    options = {.scale = in.options.scale, .soft_cap = mode == 1 ? in.options.soft_cap : T{0}};
  }
  Tensor<T> weights({in.B(), in.H(), in.N_q(), in.N_k()}), lse({in.B(), in.H(), in.N_q()});
  attention::AttentionWeights<T>(in.q, in.k, options, 0, in.N_q(), weights);
  if (mode == 3) return weights;
  Tensor<T> out({in.B(), in.H(), in.N_q(), in.v.shape()[3]});
  Arena arena;
  attention::Attention<T>(in.q, in.k, in.v, options, out, arena, lse);
  for (int64_t i = 0; i < weights.size(); ++i) {
    weights[i] = weights[i] == 0 ? -std::numeric_limits<T>::infinity() : std::log(weights[i]) + lse[i / in.N_k()];
  }
  return weights;
}

template <typename T>
void ExpectOutput(const OnnxCase& c, const Inputs<T>& in) {
  Tensor<T> out(c.Get<T>("Y").shape());
  Arena arena;
  attention::Attention<T>(in.q, in.k, in.v, in.options, Heads<T>(out.view(), in.H()), arena);
  c.Expect("Y", out, in.OutputBound());
}

template <typename T>
void RunAttention(const OnnxCase& c) {
  Inputs<T> in = Read<T>(c);
  in.options.soft_cap = c.Attribute("softcap", T{0});
  ReadMasks(c, in);
  ExpectOutput(c, in);
  // The present keys and values are `in.k` and `in.v`; generate_onnx.py compares them.
  if (!c.Has("qk_matmul_output")) return;
  const int mode = c.Attribute("qk_matmul_output_mode", 0);
  // A logarithm magnifies the error of a weight to a relative one, that of its score.
  const double bound = mode == 3 ? in.WeightBound() : 2 * in.ScoreBound() + 64 * Inputs<T>::kRoundoff;
  c.Expect("qk_matmul_output", Scores(in, mode), bound);
}

template <typename T>
void RunFlexAttention(const OnnxCase& c) {
  Inputs<T> in = Read<T>(c);
  if (const io::Json mod = c.Modification("score_mod"); !mod.is_null()) {
    const std::vector<std::string> operators = mod["operators"];
    const std::string last = operators.back();
    in.bias = Tensor<T>({1, 1, in.N_q(), in.N_k()});
    if (last == "Where") {
      in.options.causal = Causal::kTopLeft;
    } else if (last == "Mul") {
      in.options.soft_cap = mod["constants"]["cap"];
    } else {  // a constant, or the distance of query and key
      ASSERT_EQ(last, "Add") << c.name();
      const bool constant = operators.size() == 1;
      for (int64_t i = 0; i < in.bias.size(); ++i) {
        in.bias[i] = constant ? mod["constants"]["bias"].get<T>() : static_cast<T>(i / in.N_k() - i % in.N_k());
      }
      in.options.bias = in.bias;
    }
  }
  if (const io::Json mod = c.Modification("prob_mod"); !mod.is_null()) {
    ASSERT_EQ(mod["operators"], io::Json::array({"Mul"})) << c.name();
    for (T& x : in.v.span()) x *= mod["constants"]["scale"].get<T>();  // a factor of all weights, or of the values
  }
  ExpectOutput(c, in);
}

}  // namespace

void RunOnnxAttention(const OnnxCase& c) {
  c.dtype("Q") == DType::kF64 ? RunAttention<double>(c) : RunAttention<float>(c);
}
void RunOnnxFlexAttention(const OnnxCase& c) {
  c.dtype("Q") == DType::kF64 ? RunFlexAttention<double>(c) : RunFlexAttention<float>(c);
}

}  // namespace qkv::conformance
