// Heads to test on, random ones of every kind of shape and the trained ones of QKV_REFERENCE, and plain products in
// double precision to compare with. Not Eigen's: the oracle shares nothing with what it judges.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "qkv/algebra/fold.h"
#include "qkv/algebra/logits.h"
#include "qkv/io/safetensors.h"
#include "tests/support/difference.h"
#include "tests/support/sampler.h"
#include "tests/support/tolerance.h"

namespace qkv::algebra {

// --- Double precision --------------------------------------------------------------------------------------------

/// A dense copy of any view of one or two axes.
inline Tensor<double> Copy(View<const double> m) {
  auto copy = Tensor<double>::Uninitialised(m.shape());
  for (int64_t i = 0; i < m.dim(0); ++i) {
    const int64_t columns = m.rank() == 2 ? m.dim(1) : 1;
    for (int64_t j = 0; j < columns; ++j) copy[i * columns + j] = m.rank() == 2 ? *m.at(i, j) : *m.at(i);
  }
  return copy;
}

/// a b, of [m, k] and [k, n].
inline Tensor<double> Multiply(View<const double> a, View<const double> b) {
  Tensor<double> c({a.dim(0), b.dim(1)});
  for (int64_t i = 0; i < a.dim(0); ++i) {
    for (int64_t k = 0; k < a.dim(1); ++k) {
      for (int64_t j = 0; j < b.dim(1); ++j) c[i * b.dim(1) + j] += *a.at(i, k) * *b.at(k, j);
    }
  }
  return c;
}

inline View<const double> Transposed(View<const double> m) { return Transpose(m); }

inline double Norm(const Tensor<double>& m) {
  double sum = 0;
  for (const double x : m.span()) sum += x * x;
  return std::sqrt(sum);
}
inline double Norm(View<const double> m) { return m.empty() ? 0 : Norm(Copy(m)); }

inline Tensor<double> Minus(const Tensor<double>& a, const Tensor<double>& b) {
  EXPECT_EQ(a.shape(), b.shape());
  Tensor<double> c = a.Clone();
  for (int64_t i = 0; i < c.size(); ++i) c[i] -= b[i];
  return c;
}

/// The greatest spread over a row of a − b: zero where they differ by a constant for each row.
inline double MaxSpread(const Tensor<double>& a, const Tensor<double>& b) {
  double greatest = 0;
  for (int64_t i = 0; i < a.dim(0); ++i) {
    double low = INFINITY, high = -INFINITY;
    for (int64_t j = 0; j < a.dim(1); ++j) {
      const double d = a[i * a.dim(1) + j] - b[i * a.dim(1) + j];
      low = std::min(low, d), high = std::max(high, d);
    }
    greatest = std::max(greatest, high - low);
  }
  return greatest;
}

/// X Wᵀ + 1 bᵀ.
inline Tensor<double> Project(const ProjectionView& p, const Tensor<double>& tokens) {
  Tensor<double> y = Multiply(tokens, Transposed(p.weight));
  for (int64_t i = 0; i < y.size() && !p.bias.empty(); ++i) y[i] += *p.bias.at(i % y.dim(1));
  return y;
}

/// s · Q Kᵀ.
inline Tensor<double> ExactLogits(const QueryKeyView& pair, const Tensor<double>& queries, const Tensor<double>& keys,
                                  double scale) {
  Tensor<double> S = Multiply(Project(pair.query, queries), Transposed(Project(pair.key, keys)));
  for (double& x : S.span()) x *= scale;
  return S;
}

inline Tensor<double> ExactSoftmax(const Tensor<double>& logits) {
  Tensor<double> A = logits.Clone();
  const int64_t N = A.dim(1);
  for (int64_t i = 0; i < A.dim(0); ++i) {
    double* row = A.data() + i * N;
    const double greatest = *std::max_element(row, row + N);
    double sum = 0;
    for (int64_t j = 0; j < N; ++j) sum += row[j] = std::exp(row[j] - greatest);
    for (int64_t j = 0; j < N; ++j) row[j] /= sum;
  }
  return A;
}

// --- Tolerances --------------------------------------------------------------------------------------------------

/// ‖[W b]‖_F.
inline double SideNorm(const ProjectionView& p) { return std::hypot(Norm(p.weight), Norm(p.bias)); }

/// Bound, in the Frobenius norm, on the rounding of `steps` products or backward stable decompositions one after the
/// other, of matrices with dimensions up to n whose product of norms is `norm` (Higham 2002, §3.5, 19.3: each step
/// adds p(n) u times it, with random signs p(n) about √n).
inline double StepTolerance(int steps, int64_t n, double norm) { return steps * DotTolerance<double>(n, norm); }

/// The greatest norm of a token with a one appended.
inline double TokenNorm(const Tensor<double>& tokens) {
  double greatest = 0;
  for (int64_t i = 0; i < tokens.dim(0); ++i) {
    double sum = 1;
    for (int64_t d = 0; d < tokens.dim(1); ++d) sum += std::pow(static_cast<double>(tokens[i * tokens.dim(1) + d]), 2);
    greatest = std::max(greatest, std::sqrt(sum));
  }
  return greatest;
}

// --- Heads -------------------------------------------------------------------------------------------------------

/// One head: what it reads, its four projections and the LayerNorm before it.
struct Case {
  std::string name;
  QueryKey pair;               // [E, D] each
  Projection value;            // [E, D]
  Tensor<double> output;       // W_O's columns of the head, [D, E]
  Tensor<double> gamma, beta;  // [D]
  Tensor<double> hidden;       // [N, D], before the LayerNorm
  Tensor<double> normalised;   // [N, D], before γ and β
  Tensor<double> tokens;       // [N, D], after the LayerNorm: what the projections read
  Tensor<double> attention;    // [N, N], PyTorch's in float32, of trained heads
  int64_t rank = 0;            // of M

  int64_t E() const { return pair.query.weight.dim(0); }
  int64_t D() const { return pair.query.weight.dim(1); }
  int64_t N() const { return tokens.dim(0); }
  double scale() const { return 1.0 / std::sqrt(static_cast<double>(E())); }
  int64_t largest() const { return std::max({E(), D(), N()}); }

  /// Of logits that take `steps` roundings of the matrices on the way: s ‖x‖² times that of M.
  double LogitTolerance(int steps) const {
    return StepTolerance(steps, largest() + 1,
                         scale() * std::pow(TokenNorm(tokens), 2) * SideNorm(pair.query) * SideNorm(pair.key));
  }
  /// Of a softmax of them: exp turns an absolute error into a relative one, on both sides of the quotient.
  double AttentionTolerance(int steps) const {
    return 2 * LogitTolerance(steps) + DotTolerance<double>(N(), 1) + 8 * UnitRoundoff<double>();
  }

  void FillTokens(double eps) {
    normalised = Normalise(hidden, eps);
    tokens = normalised.Clone();
    for (int64_t i = 0; i < tokens.size(); ++i) tokens[i] = tokens[i] * gamma[i % D()] + beta[i % D()];
  }
};

struct HeadSize {
  int64_t E, D, rank;
};

inline Case RandomCase(const HeadSize& size, uint64_t seed, int64_t N = 9) {
  const auto [E, D, rank] = size;
  Sampler sampler(seed);
  const double stddev = 1 / std::sqrt(static_cast<double>(D));
  Case c;
  c.name = fmt::format("E {} D {} rank {}", E, D, rank);
  c.rank = rank;
  for (Projection* p : {&c.pair.query, &c.pair.key, &c.value}) {
    p->weight = sampler.Normal<double>({E, D}, 0, stddev);
    p->bias = sampler.Normal<double>({E}, 0, 0.5);
  }
  if (rank < std::min(E, D)) {
    const auto left = sampler.Normal<double>({E, rank}), right = sampler.Normal<double>({rank, D}, 0, stddev);
    const Tensor<double> product = Multiply(left, right);
    for (int64_t i = 0; i < product.size(); ++i) c.pair.query.weight[i] = product[i];
  }
  c.output = sampler.Normal<double>({D, E}, 0, 1 / std::sqrt(static_cast<double>(E)));
  c.gamma = sampler.Normal<double>({D}, 1, 0.3), c.beta = sampler.Normal<double>({D}, 0, 0.3);
  c.hidden = sampler.Normal<double>({N, D}, 0.5, 2);
  c.FillTokens(1e-6);
  return c;
}

/// E < D, E = D, E > D, one feature, few tokens and many, and a rank below both.
inline std::vector<Case> RandomCases() {
  std::vector<Case> cases;
  uint64_t seed = 1;
  for (const HeadSize& size :
       {HeadSize{4, 12, 4}, {8, 8, 8}, {12, 5, 5}, {16, 48, 16}, {1, 7, 1}, {6, 20, 3}, {2, 3, 2}}) {
    cases.push_back(RandomCase(size, seed++, size.D == 12 ? 40 : 9));
  }
  return cases;
}

/// Every head of every block of both reference models, on the tokens of the first expected image.
inline std::vector<Case> TrainedCases(const std::filesystem::path& folder) {
  std::vector<Case> cases;
  for (const auto& [model, blocks, heads] : {std::tuple{"digits-vit", 4, 4}, {"cifar10-vit", 6, 4}}) {
    const auto weights = io::SafeTensors::Open(folder / model / "model.safetensors");
    const auto expected = io::SafeTensors::Open(folder / model / "expected.safetensors");
    for (int block = 0; block < blocks; ++block) {
      const auto get = [&, block = block](const char* name) {
        return io::Convert<double>(*weights.Find(fmt::format("blocks.{}.{}", block, name)));
      };
      const auto own = [](View<const double> m) { return Copy(m); };
      const Tensor<double> qkv = get("attn.qkv.weight"), qkv_bias = get("attn.qkv.bias"),
                           proj = get("attn.proj.weight");
      const Tensor<double> hidden = io::Convert<double>(*expected.Find(fmt::format("hidden.{}", block)));
      const Tensor<double> attention = io::Convert<double>(*expected.Find(fmt::format("attention.{}", block)));
      const int64_t D = qkv.dim(1), E = D / heads;
      for (int head = 0; head < heads; ++head) {
        Case c;
        c.name = fmt::format("{} block {} head {}", model, block, head);
        c.rank = E;
        Projection* parts[] = {&c.pair.query, &c.pair.key, &c.value};
        for (int part = 0; part < 3; ++part) {
          const ProjectionView layer{qkv.view().slice(0, part * D, (part + 1) * D),
                                     qkv_bias.view().slice(0, part * D, (part + 1) * D)};
          const ProjectionView view = Head(layer, head, heads);
          *parts[part] = {own(view.weight), own(view.bias)};
        }
        c.output = own(OutputHead(proj, head, heads));
        c.gamma = get("norm1.weight"), c.beta = get("norm1.bias");
        c.hidden = own(hidden.view()[0]), c.attention = own(attention.view()[0][head]);
        c.FillTokens(1e-6);
        cases.push_back(std::move(c));
      }
    }
  }
  return cases;
}

template <bool kTrained_>
struct Source {
  static constexpr bool kTrained = kTrained_;
};

/// A test on every head, of random and of trained weights.
template <typename S>
class HeadTest : public testing::Test {
 protected:
  static constexpr bool kTrained = S::kTrained;

  void SetUp() override {
    if (kTrained && !::getenv("QKV_REFERENCE")) GTEST_SKIP() << "QKV_REFERENCE is not set";
  }
  static const auto& Cases() {
    static const auto cases = kTrained ? TrainedCases(::getenv("QKV_REFERENCE")) : RandomCases();
    return cases;
  }
};

using Sources = testing::Types<Source<false>, Source<true>>;

struct SourceNames {
  template <typename S>
  static std::string GetName(int) {
    return S::kTrained ? "Trained" : "Random";
  }
};

}  // namespace qkv::algebra

/// QKV_HEAD_TEST_SUITE(MergeTest); TYPED_TEST(MergeTest, …) { for (const auto& c : this->Cases()) … }
#define QKV_HEAD_TEST_SUITE(Suite)     \
  template <typename S>                \
  class Suite : public HeadTest<S> {}; \
  TYPED_TEST_SUITE(Suite, Sources, SourceNames)
