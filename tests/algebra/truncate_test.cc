// Notes 5 and 8: the best pair of a smaller width, for the weights and for data, and what neither is best for.
#include "qkv/algebra/truncate.h"

#include "qkv/algebra/spectrum.h"
#include "tests/algebra/support.h"

namespace qkv::algebra {
namespace {

QKV_HEAD_TEST_SUITE(TruncateTest);

// [W_Q b_Q]ᵀ [W_K b_K].
Tensor<double> AugmentedProduct(const QueryKeyView& pair) {
  return Multiply(Transposed(Augment(pair.query)), Augment(pair.key));
}

std::vector<int64_t> Ranks(const Case& c) {
  const int64_t most = std::min(c.E(), c.D());
  std::vector<int64_t> ranks{1, (most + 1) / 2, most};
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

TYPED_TEST(TruncateTest, TheWeightsErrorIsTheTailOfTheSpectrum) {
  for (const Case& c : this->Cases()) {
    SCOPED_TRACE(c.name);
    const Tensor<double> M = AugmentedProduct(c.pair);
    // No matrix of rank r is nearer than this (Eckart and Young), so that equality proves the best.
    const auto s = SingularValues(Augment(c.pair.query), Augment(c.pair.key));
    const double tolerance = StepTolerance(6, c.D(), SideNorm(c.pair.query) * SideNorm(c.pair.key));
    for (const int64_t rank : Ranks(c)) {
      const QueryKey cut = Truncate(c.pair, rank, Terms::kExact);
      ASSERT_EQ(cut.query.weight.shape(), Shape({rank, c.D()}));
      EXPECT_NEAR(Norm(Minus(M, AugmentedProduct(cut))), TailNorm(s, rank), tolerance);
    }
  }
}

TYPED_TEST(TruncateTest, TheDatasErrorIsTheTailOfTheLogits) {
  for (const Case& c : this->Cases()) {
    SCOPED_TRACE(c.name);
    const Tensor<double> exact = ExactLogits(c.pair, c.tokens, c.tokens, c.scale());
    const auto s = SingularValues(exact);
    const double tolerance = static_cast<double>(c.N()) * c.LogitTolerance(8);
    for (const int64_t rank : Ranks(c)) {
      const QueryKey cut = TruncateForData(c.pair, c.tokens, c.tokens, rank, Terms::kExact);
      ASSERT_EQ(cut.query.weight.shape(), Shape({rank, c.D()}));
      const double error = Norm(Minus(exact, ExactLogits(cut, c.tokens, c.tokens, c.scale())));
      EXPECT_NEAR(error, TailNorm(s, rank), tolerance);
      // Which the weights' best cannot beat.
      const QueryKey by_weights = Truncate(c.pair, rank, Terms::kExact);
      EXPECT_GE(Norm(Minus(exact, ExactLogits(by_weights, c.tokens, c.tokens, c.scale()))), error - tolerance);
      // And the report says the same.
      const AttentionError report = Compare(c.pair, cut, c.tokens, c.tokens, c.scale(), Terms::kExact);
      EXPECT_NEAR(report.logits, error, tolerance);
      EXPECT_NEAR(report.logits_relative * Norm(exact), error, tolerance * (1 + report.logits_relative));
    }
  }
}

TYPED_TEST(TruncateTest, SoftmaxTermsSpendNothingOnTheKeysBias) {
  for (const Case& c : this->Cases()) {
    SCOPED_TRACE(c.name);
    QueryKeyView without = c.pair;
    without.key.bias = {};
    const auto s = SingularValues(ExactLogits(without, c.tokens, c.tokens, c.scale()));
    const int64_t rank = Ranks(c).front();
    const QueryKey cut = TruncateForData(c.pair, c.tokens, c.tokens, rank, Terms::kSoftmax);
    EXPECT_TRUE(cut.key.bias.empty());
    const double error = Norm(
        Minus(ExactLogits(without, c.tokens, c.tokens, c.scale()), ExactLogits(cut, c.tokens, c.tokens, c.scale())));
    EXPECT_NEAR(error, TailNorm(s, rank), static_cast<double>(c.N()) * c.LogitTolerance(8));
  }
}

TYPED_TEST(TruncateTest, AFullRankKeepsTheAttention) {
  for (const Case& c : this->Cases()) {
    SCOPED_TRACE(c.name);
    const int64_t most = std::min(c.E(), c.D());
    const QueryKey cut = Truncate(c.pair, most, Terms::kSoftmax);
    const AttentionError error = Compare(c.pair, cut, c.tokens, c.tokens, c.scale(), Terms::kSoftmax);
    EXPECT_LE(error.logits_max, 4 * c.LogitTolerance(6));
    EXPECT_LE(error.attention_max, 2 * c.AttentionTolerance(6));
  }
}

// The definition: C^½ M C^½ truncated, and the C^½ undone. C^½ from the tokens' own orthogonal form would share the
// method, so the tokens are chosen so that C is diagonal.
TEST(Truncate, IsTheTruncationOfTheWeightedMatrixUndone) {
  const int64_t D = 6, E = 4, rank = 2;
  Sampler sampler(41);
  const auto query = sampler.Normal<double>({E, D}), key = sampler.Normal<double>({E, D});
  Tensor<double> tokens({D, D}), weighted_query = query.Clone(), weighted_key = key.Clone();
  for (int64_t d = 0; d < D; ++d) {
    const double root = std::pow(2.0, d - 2);
    tokens[d * D + d] = root * std::sqrt(static_cast<double>(D));  // C = XᵀX / N has root² on the diagonal
    for (int64_t e = 0; e < E; ++e) weighted_query[e * D + d] *= root, weighted_key[e * D + d] *= root;
  }
  const QueryKey weighted = Truncate({{weighted_query, {}}, {weighted_key, {}}}, rank, Terms::kExact);
  Tensor<double> undone = Multiply(Transposed(weighted.query.weight), weighted.key.weight);
  for (int64_t i = 0; i < D; ++i) {
    for (int64_t j = 0; j < D; ++j) undone[i * D + j] /= std::pow(2.0, i - 2) * std::pow(2.0, j - 2);
  }
  const QueryKey cut = TruncateForData({{query, {}}, {key, {}}}, tokens, tokens, rank, Terms::kExact);
  EXPECT_LE(MaxDifference(Multiply(Transposed(cut.query.weight), cut.key.weight), undone), 1e-12 * Norm(undone));
}

// Tokens with a large common part spend the rank on logits that are constant along a row, which softmax ignores.
TEST(Truncate, NeitherIsTheBestAfterSoftmax) {
  Sampler sampler(42);
  const int64_t D = 10, E = 6, N = 30;
  const auto query = sampler.Normal<double>({E, D}, 0, 0.3), key = sampler.Normal<double>({E, D}, 0, 0.3);
  auto tokens = sampler.Normal<double>({N, D});
  Tensor<double> centred = tokens.Clone();
  for (int64_t d = 0; d < D; ++d) {
    double mean = 0;
    for (int64_t i = 0; i < N; ++i) tokens[i * D + d] += 3, mean += tokens[i * D + d] / N;
    for (int64_t i = 0; i < N; ++i) centred[i * D + d] = tokens[i * D + d] - mean;
  }
  const QueryKeyView pair{{query, {}}, {key, {}}};
  const auto error = [&](const QueryKey& cut) { return Compare(pair, cut, tokens, tokens, 0.05, Terms::kSoftmax); };
  const AttentionError weights = error(Truncate(pair, 2, Terms::kSoftmax));
  const AttentionError data = error(TruncateForData(pair, tokens, tokens, 2, Terms::kSoftmax));
  const AttentionError other = error(TruncateForData(pair, tokens, centred, 2, Terms::kSoftmax));
  EXPECT_LT(other.attention_mean, weights.attention_mean);
  EXPECT_LT(other.attention_mean, data.attention_mean);
  EXPECT_LE(other.logits, data.logits * (1 + 1e-12));  // of logits up to a constant for each query it is the best
  EXPECT_LE(other.logits, weights.logits * (1 + 1e-12));
}

// Exact at the rank of M, and only with the scale of the original width.
TEST(Truncate, TheScaleStaysThatOfTheOriginalWidth) {
  const Case c = RandomCase({16, 20, 3}, 43);
  QueryKeyView bare = c.pair;
  bare.query.bias = bare.key.bias = {};
  const QueryKey cut = Truncate(bare, 3, Terms::kExact);
  const Tensor<double> exact = ExactSoftmax(ExactLogits(bare, c.tokens, c.tokens, c.scale()));
  EXPECT_LE(MaxDifference(Softmax(Logits(cut, c.tokens, c.tokens, c.scale())), exact), 1e-12);
  EXPECT_GT(MaxDifference(Softmax(Logits(cut, c.tokens, c.tokens, 1 / std::sqrt(3.0))), exact), 0.01);
}

TEST(Truncate, FewerTokensThanTheRankLeaveTheirLogitsExact) {
  const Case c = RandomCase({8, 12, 8}, 44, 3);
  const QueryKey cut = TruncateForData(c.pair, c.tokens, c.tokens, 5, Terms::kExact);
  EXPECT_LE(MaxDifference(ExactLogits(cut, c.tokens, c.tokens, c.scale()),
                          ExactLogits(c.pair, c.tokens, c.tokens, c.scale())),
            1e-11);
  // Zeros where nothing was left to fit.
  for (int64_t i = 3 * 12; i < 5 * 12; ++i) EXPECT_EQ(cut.query.weight[i], 0);
}

TEST(Truncate, TheReportOfAKnownDifference) {
  Tensor<double> query({1, 1}), key({1, 1}), half({1, 1}), from({1, 1}), to({2, 1});
  query[0] = 2, key[0] = 1, half[0] = 1, from[0] = 1, to[0] = 0, to[1] = std::log(3.0);
  const QueryKeyView original{{query, {}}, {key, {}}}, rewritten{{half, {}}, {key, {}}};
  const AttentionError exact = Compare(original, rewritten, from, to, 1, Terms::kExact);
  EXPECT_NEAR(exact.logits, std::log(3.0), 1e-14);  // (0, 2 log 3) against (0, log 3)
  EXPECT_NEAR(exact.logits_relative, 0.5, 1e-14);
  EXPECT_NEAR(exact.logits_max, std::log(3.0), 1e-14);
  EXPECT_NEAR(exact.attention_max, 0.15, 1e-14);  // (0.1, 0.9) against (0.25, 0.75)
  EXPECT_NEAR(exact.attention_mean, 0.15, 1e-14);
  const AttentionError softmax = Compare(original, rewritten, from, to, 1, Terms::kSoftmax);
  EXPECT_NEAR(softmax.logits_max, std::log(3.0) / 2, 1e-14);
  EXPECT_NEAR(softmax.attention_mean, 0.15, 1e-14);
}

TEST(Truncate, WrongRanksAndTokensAreRefused) {
  const Case c = RandomCase({4, 12, 4}, 1);
  EXPECT_THROW(Truncate(c.pair, 0, Terms::kExact), Error);
  EXPECT_THROW(Truncate(c.pair, 5, Terms::kExact), Error);
  EXPECT_THROW(TruncateForData(c.pair, c.tokens, c.gamma, 2, Terms::kExact), Error);
}

// Rounding of the squares counts with the condition of K, about 30 here.
TEST(Truncate, FactorsOfTokensGiveEveryRank) {
  Sampler sampler(44);
  const int64_t N = 40, E = 12;
  const auto query = sampler.Normal<double>({N, E}), key = sampler.Normal<double>({N, E});
  const Tensor<double> query_gram = Multiply(Transposed(query), query), key_gram = Multiply(Transposed(key), key);
  const auto factors = FactorTokens(query_gram, key_gram);
  ASSERT_TRUE(factors);
  const Tensor<double> scores = Multiply(query, Transposed(key));
  const auto s = SingularValues(scores);
  for (int64_t rank = 1; rank <= E; ++rank) {
    const Tensor<double> low = Multiply(Multiply(query, Transposed(factors->query.view().slice(0, 0, rank))),
                                        Multiply(factors->key.view().slice(0, 0, rank), Transposed(key)));
    EXPECT_NEAR(Norm(Minus(scores, low)), TailNorm(s, rank), 1e-11 * s[0]) << rank;
  }
}

TEST(Truncate, DependentTokensHaveNoFactorsBySquares) {
  Sampler sampler(45);
  const int64_t N = 40, E = 12;
  auto key = sampler.Normal<double>({N, E});
  for (int64_t i = 0; i < N; ++i) key[i * E + 3] = key[i * E] - 2 * key[i * E + 7];
  const Tensor<double> gram = Multiply(Transposed(key), key);
  EXPECT_FALSE(FactorTokens(gram, gram));
  EXPECT_FALSE(FactorTokens(gram, Tensor<double>({E, E})));
}

}  // namespace
}  // namespace qkv::algebra
