#include "qkv/inspect/heads.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cmath>

#include "qkv/algebra/fold.h"
#include "qkv/algebra/gauge.h"
#include "qkv/algebra/merge.h"
#include "qkv/algebra/parts.h"
#include "qkv/algebra/spectrum.h"
#include "tests/support/sampler.h"
#include "tests/support/tolerance.h"

namespace qkv::inspect {
namespace {

// Rounding of a handful of products and decompositions in double of matrices up to about a hundred rows, relative to
// the result, with the condition numbers of the gauges below (up to about a hundred) on top.
constexpr double kTolerance = 1e-10;

// A block of random weights: H heads of width E on D features.
AttentionWeights RandomWeights(int64_t H, int64_t E, int64_t D, uint64_t seed) {
  Sampler sampler(seed);
  const double deviation = 1 / std::sqrt(static_cast<double>(D));
  AttentionWeights weights;
  weights.heads = H;
  weights.gamma = sampler.Normal<double>({D}, 1, 0.3), weights.beta = sampler.Normal<double>({D}, 0, 0.3);
  weights.eps = 1e-6;
  for (algebra::Projection* p : {&weights.query, &weights.key, &weights.value}) {
    p->weight = sampler.Normal<double>({H * E, D}, 0, deviation), p->bias = sampler.Normal<double>({H * E}, 0, 0.5);
  }
  weights.output.weight = sampler.Normal<double>({D, H * E}, 0, deviation);
  weights.output.bias = sampler.Normal<double>({D}, 0, 0.5);
  return weights;
}

void ExpectSame(const Circuit& a, const Circuit& b) {
  ASSERT_EQ(a.singular_values.size(), b.singular_values.size());
  for (size_t i = 0; i < a.singular_values.size(); ++i) {
    EXPECT_NEAR(a.singular_values[i], b.singular_values[i], kTolerance * a.singular_values[0]);
  }
  EXPECT_NEAR(a.effective_rank, b.effective_rank, kTolerance * a.effective_rank);
  EXPECT_NEAR(a.stable_rank, b.stable_rank, kTolerance * a.stable_rank);
  EXPECT_EQ(a.rank, b.rank);
  EXPECT_EQ(a.energy_rank, b.energy_rank);
  EXPECT_NEAR(a.condition, b.condition, kTolerance * a.condition * a.condition);
  EXPECT_NEAR(a.symmetry, b.symmetry, kTolerance);
  EXPECT_NEAR(a.eigenvalue_sign, b.eigenvalue_sign, 1e-6);  // eigenvalues of a matrix that is not normal move more
}

TEST(Circuit, OfKnownSingularValues) {
  // diag(4, 2, 1) in five dimensions, seen as symmetric, negated, and as a rotation between two axes.
  Tensor<double> a({3, 5}), b({3, 5});
  const double s[] = {4, 2, 1};
  for (int64_t i = 0; i < 3; ++i) a[i * 5 + i] = s[i], b[i * 5 + i] = 1;
  const Circuit circuit = MeasureCircuit(a, b);
  ASSERT_EQ(circuit.singular_values.size(), 3u);
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(circuit.singular_values[i], s[i], 1e-14);
  EXPECT_NEAR(circuit.stable_rank, 21.0 / 16, 1e-14);
  const double entropy = 4.0 / 7 * std::log(7.0 / 4) + 2.0 / 7 * std::log(7.0 / 2) + 1.0 / 7 * std::log(7.0);
  EXPECT_NEAR(circuit.effective_rank, std::exp(entropy), 1e-13);
  EXPECT_EQ(circuit.rank, 3);
  EXPECT_NEAR(circuit.condition, 4, 1e-13);
  // 16, 20 and 21 of 21: 76 %, 95 %, 100 %.
  EXPECT_EQ(circuit.energy_rank, (std::array<int64_t, 3>{2, 3, 3}));
  EXPECT_NEAR(circuit.symmetry, 1, 1e-14);
  EXPECT_NEAR(circuit.eigenvalue_sign, 1, 1e-14);

  for (double& x : a.span()) x = -x;
  EXPECT_NEAR(MeasureCircuit(a, b).symmetry, 1, 1e-14);
  EXPECT_NEAR(MeasureCircuit(a, b).eigenvalue_sign, -1, 1e-14);

  Tensor<double> left({2, 5}), right({2, 5});  // M = e0 e1ᵀ − e1 e0ᵀ
  left[0] = 1, left[5 + 1] = -1, right[1] = 1, right[5 + 0] = 1;
  EXPECT_NEAR(MeasureCircuit(left, right).symmetry, -1, 1e-14);
  EXPECT_NEAR(MeasureCircuit(left, right).eigenvalue_sign, 0, 1e-14);
  EXPECT_NEAR(std::abs(MeasureCircuit(left, right).eigenvalues[0].imag()), 1, 1e-14);
}

TEST(Circuit, RankIsThatOfFloatWeights) {
  Sampler sampler(3);
  const auto left = sampler.Normal<double>({6, 40}), right = sampler.Normal<double>({6, 40});
  Tensor<double> a({8, 40}), b({8, 40});
  for (int64_t i = 0; i < 6 * 40; ++i) a[i] = left[i], b[i] = right[i];
  for (int64_t i = 6 * 40; i < 8 * 40; ++i) {  // dependent, but for the rounding of float
    a[i] = static_cast<float>(left[i - 6 * 40]), b[i] = static_cast<float>(right[i - 6 * 40]);
  }
  EXPECT_EQ(MeasureCircuit(a, b).rank, 6);
  Tensor<double> zero({8, 40});
  const Circuit none = MeasureCircuit(zero, b);
  EXPECT_EQ(none.rank, 0);
  EXPECT_EQ(none.condition, 0);
  EXPECT_EQ(none.energy_rank, (std::array<int64_t, 3>{0, 0, 0}));
}

TEST(HeadWeights, AreThoseOfTheDenseCircuits) {
  const int64_t H = 3, E = 4, D = 10;
  const AttentionWeights weights = RandomWeights(H, E, D, 1);
  const std::vector<HeadWeights> heads = MeasureWeights(weights);
  ASSERT_EQ(heads.size(), 3u);
  for (int64_t h = 0; h < H; ++h) {
    const auto folded = [&](const algebra::Projection& layer) {
      return algebra::FoldLayerNorm(algebra::Head(layer, h, H), weights.gamma, weights.beta);
    };
    const algebra::QueryKey pair{folded(weights.query), folded(weights.key)};
    const Tensor<double> qk = algebra::CentreBoth(algebra::Merge(pair, algebra::Terms::kSoftmax).matrix);
    const Tensor<double> ov = algebra::CentreBoth(
        algebra::MergeOutput(folded(weights.value), algebra::OutputHead(weights.output.weight, h, H)).matrix);
    const HeadWeights& head = heads[static_cast<size_t>(h)];
    for (const auto& [circuit, dense] : {std::pair{&head.qk, &qk}, std::pair{&head.ov, &ov}}) {
      const std::vector<double> s = algebra::SingularValues(dense->view());
      ASSERT_EQ(circuit->singular_values.size(), static_cast<size_t>(E));
      for (size_t i = 0; i < s.size(); ++i) {
        EXPECT_NEAR(i < static_cast<size_t>(E) ? circuit->singular_values[i] : 0, s[i], kTolerance * s[0]);
      }
      EXPECT_NEAR(circuit->symmetry, algebra::SymmetryScore(dense->view()), kTolerance);
      const auto eigenvalues = algebra::Eigenvalues(dense->view());
      EXPECT_NEAR(circuit->eigenvalue_sign, algebra::EigenvalueSign(eigenvalues), 1e-7);
    }
  }
}

// What tokens never have along 1, and where γ stands, changes no number of the circuits.
TEST(HeadWeights, DoNotSeeWhatTokensNeverHave) {
  const int64_t H = 2, E = 5, D = 12;
  AttentionWeights weights = RandomWeights(H, E, D, 2);
  const std::vector<HeadWeights> before = MeasureWeights(weights);
  Sampler sampler(7);
  for (algebra::Projection* p : {&weights.query, &weights.key, &weights.value}) {
    const auto along_one = sampler.Normal<double>({H * E}, 0, 3);
    for (int64_t i = 0; i < p->weight.size(); ++i) {
      p->weight[i] = p->weight[i] * weights.gamma[i % D] + along_one[i / D];
    }
  }
  for (double& gamma : weights.gamma.span()) gamma = 1;
  const auto constant = sampler.Normal<double>({H * E}, 0, 3);
  for (int64_t i = 0; i < weights.output.weight.size(); ++i) weights.output.weight[i] += constant[i % (H * E)];
  const std::vector<HeadWeights> after = MeasureWeights(weights);
  for (size_t h = 0; h < 2; ++h) {
    ExpectSame(before[h].qk, after[h].qk);
    ExpectSame(before[h].ov, after[h].ov);
  }
}

TEST(HeadWeights, GaugeChangesTheirNormsAlone) {
  const int64_t H = 2, E = 4, D = 15;
  const AttentionWeights weights = RandomWeights(H, E, D, 4);
  const std::vector<HeadWeights> before = MeasureWeights(weights);
  const auto regauged = [&](auto&& transform_of) {
    AttentionWeights changed = RandomWeights(H, E, D, 4);
    for (int64_t h = 0; h < H; ++h) {
      const algebra::QueryKeyView pair{algebra::Head(weights.query, h, H), algebra::Head(weights.key, h, H)};
      const algebra::QueryKey other = algebra::Regauge(pair, transform_of(pair));
      std::copy_n(other.query.weight.data(), E * D, changed.query.weight.data() + h * E * D);
      std::copy_n(other.key.weight.data(), E * D, changed.key.weight.data() + h * E * D);
    }
    return MeasureWeights(changed);
  };
  Sampler sampler(5);
  const auto random = sampler.Normal<double>({E, E});
  const std::vector<HeadWeights> turned = regauged([&](const auto&) { return random.view(); });
  Tensor<double> balance;
  const std::vector<HeadWeights> balanced = regauged([&](const algebra::QueryKeyView& pair) {
    balance = algebra::BalancedGauge(pair);
    return balance.view();
  });
  for (size_t h = 0; h < 2; ++h) {
    ExpectSame(before[h].qk, turned[h].qk);
    ExpectSame(before[h].qk, balanced[h].qk);
    EXPECT_GT(before[h].gauge_excess, 0.01);
    EXPECT_GT(turned[h].gauge_excess, before[h].gauge_excess);
    EXPECT_NEAR(balanced[h].gauge_excess, 0, kTolerance);
    EXPECT_NEAR(balanced[h].query_norm, balanced[h].key_norm, kTolerance * balanced[h].key_norm);
    const double squares = before[h].query_norm * before[h].query_norm + before[h].key_norm * before[h].key_norm;
    EXPECT_NEAR(2 * balanced[h].key_norm * balanced[h].key_norm, (1 - before[h].gauge_excess) * squares,
                kTolerance * squares);
  }
}

TEST(HeadWeights, SharedProjectionsAreSymmetricAndCopiesCopy) {
  const int64_t H = 2, E = 3, D = 9;
  AttentionWeights weights = RandomWeights(H, E, D, 6);
  weights.key.weight = weights.query.weight.Clone();
  // W_O = W_Vᵀ diag(γ), so that what is written is what was read.
  for (int64_t d = 0; d < D; ++d) {
    for (int64_t e = 0; e < H * E; ++e) {
      weights.output.weight[d * H * E + e] = weights.value.weight[e * D + d] * weights.gamma[d];
    }
  }
  for (const HeadWeights& head : MeasureWeights(weights)) {
    EXPECT_NEAR(head.qk.symmetry, 1, kTolerance);
    EXPECT_NEAR(head.qk.eigenvalue_sign, 1, kTolerance);
    EXPECT_NEAR(head.gauge_excess, 0, kTolerance);
    EXPECT_NEAR(head.query_norm, head.key_norm, kTolerance);
    EXPECT_NEAR(head.ov.eigenvalue_sign, 1, kTolerance);
  }
  weights.layer_scale = Tensor<double>({D});
  for (double& scale : weights.layer_scale.span()) scale = -0.1;
  for (const HeadWeights& head : MeasureWeights(weights)) {
    EXPECT_NEAR(head.ov.symmetry, 1, kTolerance);
    EXPECT_NEAR(head.ov.eigenvalue_sign, -1, kTolerance);
  }
}

TEST(HeadWeights, WithoutBiasesOrProjection) {
  AttentionWeights weights = RandomWeights(1, 8, 8, 8);
  weights.query.bias = {}, weights.key.bias = {}, weights.value.bias = {}, weights.output = {};
  const std::vector<HeadWeights> heads = MeasureWeights(weights);
  EXPECT_EQ(heads[0].key_bias_norm, 0);
  EXPECT_EQ(heads[0].qk.rank, 7);  // the tokens of a LayerNorm have seven dimensions
  EXPECT_EQ(heads[0].ov.rank, 7);
  weights.value.weight = Tensor<double>({4, 8});
  EXPECT_THROW(MeasureWeights(weights), Error);
}

TEST(HeadParameters, LoseOneDirectionToTheNorm) {
  const HeadParameters plain = CountHead(768, 64, false);
  EXPECT_EQ(plain.count.separate, 2 * 768 * 64);
  EXPECT_EQ(plain.count.freedom, 2 * 768 * 64 - 64 * 64);
  EXPECT_EQ(plain.seen, 2 * 767 * 64 - 64 * 64);
  EXPECT_EQ(plain.count.merged, 768 * 768);
  EXPECT_EQ(CountHead(4, 8, true).seen, 3 * 4);  // all of a 3×3 matrix, and u
}

// Every head of the trained models: what must hold of any weights.
TEST(HeadWeights, OfTrainedModels) {
  const char* folder = ::getenv("QKV_REFERENCE");
  if (!folder) GTEST_SKIP() << "QKV_REFERENCE is not set";
  for (const char* name : {"digits-vit", "cifar10-vit"}) {
    const auto checkpoint = model::Checkpoint::Open(std::filesystem::path(folder) / name);
    const model::VitConfig& config = checkpoint.description.config;
    for (int64_t block = 0; block < config.depth; ++block) {
      const std::vector<HeadWeights> heads = MeasureWeights(ReadAttention(checkpoint, block));
      EXPECT_EQ(std::ssize(heads), config.block.attention.heads);
      for (const HeadWeights& head : heads) {
        for (const Circuit* circuit : {&head.qk, &head.ov}) {
          EXPECT_EQ(circuit->rank, config.block.attention.head_width);
          EXPECT_GE(circuit->stable_rank, 1);
          EXPECT_LE(circuit->stable_rank, circuit->effective_rank);
          EXPECT_LE(circuit->effective_rank, static_cast<double>(config.block.attention.head_width));
          EXPECT_LE(circuit->energy_rank[0], circuit->energy_rank[1]);
          EXPECT_LE(circuit->energy_rank[1], circuit->energy_rank[2]);
          EXPECT_LE(std::abs(circuit->symmetry), 1);
          EXPECT_LE(std::abs(circuit->eigenvalue_sign), 1);
          // Weyl: the eigenvalues' magnitudes have at most the singular values' product and sum.
          EXPECT_LE(std::abs(circuit->eigenvalues[0]), circuit->singular_values[0] * (1 + kTolerance));
        }
        EXPECT_GE(head.gauge_excess, 0);
        EXPECT_LT(head.gauge_excess, 1);
        EXPECT_GT(head.key_bias_norm, 0);
      }
    }
  }
}

// Rows of one space, columns of another: what compares rows with columns is not there.
TEST(Circuit, OfTwoSpacesHasRanksAndNoSymmetry) {
  Sampler sampler(3);
  const auto a = sampler.Normal<double>({4, 9}), b = sampler.Normal<double>({4, 6});
  const Circuit circuit = MeasureCircuit(a, b, Spaces::kTwo);
  EXPECT_EQ(circuit.rank, 4);
  EXPECT_EQ(circuit.singular_values.size(), 4u);
  EXPECT_TRUE(circuit.eigenvalues.empty());
  EXPECT_TRUE(std::isnan(circuit.symmetry) && std::isnan(circuit.eigenvalue_sign));
  EXPECT_THROW(MeasureCircuit(a, b), Error);
  const auto square = sampler.Normal<double>({4, 9});
  EXPECT_TRUE(std::isnan(MeasureCircuit(a, square, Spaces::kTwo).symmetry));
  EXPECT_EQ(MeasureCircuit(a, square, Spaces::kTwo).singular_values, MeasureCircuit(a, square).singular_values);
}

// An RMSNorm keeps the mean: a component along 1 of the weights counts. A LayerNorm's tokens have none.
TEST(MeasureWeights, FoldTheNormThatIsThere) {
  const int64_t H = 2, E = 4, D = 10;
  AttentionWeights weights = RandomWeights(H, E, D, 5);
  const double layer = MeasureWeights(weights)[0].qk.effective_rank;
  for (int64_t e = 0; e < E; ++e) {
    for (int64_t d = 0; d < D; ++d) weights.query.weight[e * D + d] += 3 / weights.gamma[d];
  }
  EXPECT_NEAR(MeasureWeights(weights)[0].qk.effective_rank, layer, 1e-10);
  weights.norm = TokenNorm::kRmsNorm;
  EXPECT_GT(std::abs(MeasureWeights(weights)[0].qk.effective_rank - layer), 1e-3);
  // Without a norm the weights are as stored.
  weights.norm = TokenNorm::kNone;
  const Circuit stored =
      MeasureCircuit(algebra::Head(weights.query, 0, H).weight, algebra::Head(weights.key, 0, H).weight);
  EXPECT_NEAR(MeasureWeights(weights)[0].qk.effective_rank, stored.effective_rank, 1e-12);
}

}  // namespace
}  // namespace qkv::inspect
