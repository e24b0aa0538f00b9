// C1 to C3: a shared projection of queries and keys makes scores symmetric; separate ones need not.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "qkv/algebra/logits.h"
#include "qkv/algebra/merge.h"
#include "qkv/algebra/parts.h"
#include "qkv/lab/claims/forms.h"
#include "qkv/lab/claims/replay.h"
#include "qkv/report/text.h"

namespace qkv::lab::internal {
namespace {

// The text's sizes.
constexpr int64_t kTokens = 4, kFeatures = 3, kWidth = 2;

report::Heatmap ScoresPicture(const Matrix& scores, std::string title) {
  std::vector<std::string> names;
  for (int64_t i = 0; i < scores.dim(0); ++i) names.push_back(fmt::format("{}", i + 1));
  return {.heading = {std::move(title)},
          .row_name = "query",
          .column_name = "key",
          .rows = names,
          .columns = names,
          .row_count = scores.dim(0),
          .column_count = scores.dim(1),
          .values = {scores.span().begin(), scores.span().end()},
          .map = image::ColourMap::kDiverging,
          .value_name = "score",
          .numbers = true,
          .cell = 46};
}

// The head with its query weights used for keys, as sharing would.
algebra::QueryKeyView Shared(const TrainedHead& head) { return {head.pair.query, head.pair.query}; }

}  // namespace

Result ReplayUnified(const Bench& bench) {
  Rng rng(bench.seed());
  const Matrix x = Integers({kTokens, kFeatures}, rng), w = Integers({kFeatures, kWidth}, rng);
  const Matrix real = Uniform({kTokens, kFeatures}, rng), real_w = Uniform({kFeatures, kWidth}, rng);
  const Attended exact = unified_attention(x, w), rounded = unified_attention(real, real_w);
  const Matrix formula = Multiply(Multiply(Multiply(x, w), algebra::Transpose(w)), algebra::Transpose(x));

  double trained = 0, tolerance = 0;
  for (const TrainedHead& head : bench.trained()) {
    const Matrix S = algebra::Logits(Shared(head), *head.tokens, *head.tokens, 1);
    trained = std::max(trained, Asymmetry(S));
    tolerance = std::max(tolerance, Rounding(2, head.tokens->dim(1), LogitMagnitude(Shared(head), *head.tokens)));
  }
  Result result{
      .title = "One projection makes symmetric scores",
      .claim = "With one matrix W for queries, keys and values the scores are x W Wᵀ xᵀ, a symmetric matrix.",
      .run = fmt::format("unified_attention on x {}×{} and W {}×{}, small integers and uniform numbers; then "
                         "W_Q of all {} heads of {} for queries and keys",
                         kTokens, kFeatures, kFeatures, kWidth, bench.trained().size(), bench.name()),
      .reason =
          "q_i·k_j = q_i·q_j, and a scalar product is symmetric. So token i looks at j as j looks at i "
          "before the softmax, which then divides each row by a sum of its own.",
      .checks = {
          {"max |S − Sᵀ|, integers", Relation::kEquals, 0, Asymmetry(exact.scores)},
          {"max |S − Sᵀ|, uniform", Relation::kAtMost, 0, Asymmetry(rounded.scores), Rounding(2, kFeatures, 9)},
          {"max |S − x W Wᵀ xᵀ|, integers", Relation::kEquals, 0, MaxDifference(exact.scores, formula)},
          {"max |S − Sᵀ|, trained W_Q", Relation::kAtMost, 0, trained, tolerance},
          {"max |A − Aᵀ| after softmax, uniform", Relation::kObserved, std::numeric_limits<double>::quiet_NaN(),
           Asymmetry(rounded.weights)},
      }};
  result.pictures.push_back({ScoresPicture(exact.scores, "Scores of one projection"), "Symmetric about the diagonal."});
  return result;
}

Result ReplaySeparate(const Bench& bench) {
  Rng rng(bench.seed());
  const Matrix x = Integers({kTokens, kFeatures}, rng), w = Integers({kFeatures, kWidth}, rng);
  // S − Sᵀ = 2 x M_a xᵀ. Small integers may make it zero by chance, which would show nothing.
  Matrix w_k;
  double expected = 0;
  while (expected == 0) {
    w_k = Integers({kFeatures, kWidth}, rng);
    const Matrix merged = Multiply(w, algebra::Transpose(w_k));
    const Matrix antisymmetric = algebra::AntisymmetricPart(merged);
    const Matrix twice = Multiply(Multiply(x, antisymmetric), algebra::Transpose(x));
    for (const double v : twice.span()) expected = std::max(expected, 2 * std::abs(v));
  }
  const Matrix w_v = Integers({kFeatures, kWidth}, rng);
  const Attended unified = unified_attention(x, w), separate = separate_attention(x, w, w_k, w_v);

  int asymmetric = 0, different = 0;
  constexpr int kTries = 1000;
  for (int i = 0; i < kTries; ++i) {
    const Matrix a = Uniform({kTokens, kFeatures}, rng), q = Uniform({kFeatures, kWidth}, rng);
    const Matrix k = Uniform({kFeatures, kWidth}, rng);
    const Matrix apart = separate_attention(a, q, k, k).scores, together = unified_attention(a, q).scores;
    asymmetric += Asymmetry(apart) > Rounding(2, kFeatures, 9);
    different += MaxDifference(apart, together) > Rounding(2, kFeatures, 9);
  }
  double least = 2, most = -2, mean = 0;
  for (const TrainedHead& head : bench.trained()) {
    const double score = algebra::SymmetryScore(head.pair.query.weight, head.pair.key.weight);
    least = std::min(least, score), most = std::max(most, score);
    mean += score / static_cast<double>(bench.trained().size());
  }
  Result result{
      .title = "Two projections need not",
      .claim = "With W_Q, W_K and W_V apart the scores are other ones, and need not be symmetric.",
      .run =
          fmt::format("separate_attention on the same x and W_Q, with a W_K of its own; {} draws of uniform numbers; "
                      "the symmetry (‖M_s‖² − ‖M_a‖²)/‖M‖² of M = W_QᵀW_K in all heads of {}",
                      kTries, bench.name()),
      .reason =
          "The scores are x M xᵀ, M = W_Q W_Kᵀ as the text writes weights, and S − Sᵀ = 2 x M_a xᵀ: symmetric only "
          "where the "
          "antisymmetric part M_a vanishes on the tokens. For random weights that never happens, and training "
          "has no reason to bring it about.",
      .checks = {
          {"max |S − Sᵀ|, integers, against 2 max |x M_a xᵀ|", Relation::kEquals, expected, Asymmetry(separate.scores)},
          {"max |S_separate − S_unified|, integers", Relation::kObserved, std::numeric_limits<double>::quiet_NaN(),
           MaxDifference(separate.scores, unified.scores)},
          {fmt::format("other than unified ones, of {} draws", kTries), Relation::kEquals, kTries,
           static_cast<double>(different)},
          {fmt::format("asymmetric of {} draws", kTries), Relation::kEquals, kTries, static_cast<double>(asymmetric)},
          {"symmetry of trained heads, least", Relation::kObserved, std::numeric_limits<double>::quiet_NaN(), least},
          {"symmetry of trained heads, mean", Relation::kObserved, std::numeric_limits<double>::quiet_NaN(), mean},
          {"symmetry of trained heads, most", Relation::kObserved, std::numeric_limits<double>::quiet_NaN(), most},
      }};
  result.pictures.push_back({ScoresPicture(separate.scores, "Scores of two projections"),
                             "The same tokens and W_Q as above: with a W_K of its own nothing is mirrored."});
  return result;
}

Result ReplaySameQk(const Bench& bench) {
  Rng rng(bench.seed());
  const Matrix x = Integers({kTokens, kFeatures}, rng), w = Integers({kFeatures, kWidth}, rng);
  const Attended unified = unified_attention(x, w);
  double scores = 0, weights = 0, outputs = 0;
  constexpr int kTries = 100;
  for (int i = 0; i < kTries; ++i) {
    const Attended same = separate_attention_same_qk(x, w, Integers({kFeatures, kWidth}, rng));
    scores = std::max(scores, MaxDifference(same.scores, unified.scores));
    weights = std::max(weights, MaxDifference(same.weights, unified.weights));
    outputs = std::max(outputs, MaxDifference(same.outputs, unified.outputs));
  }
  double trained = 0;
  for (const TrainedHead& head : bench.trained()) {
    const Matrix w_q = algebra::Augment(head.pair.query), w_v = algebra::Augment(head.value);
    const Matrix tokens = algebra::AppendOnes(*head.tokens);
    const auto turned = [](const Matrix& m) { return algebra::Transpose(m); };
    trained = std::max(trained, MaxDifference(separate_attention_same_qk(tokens, turned(w_q), turned(w_v)).scores,
                                              unified_attention(tokens, turned(w_q)).scores));
  }
  return {.title = "Values have no part in it",
          .claim = "The second form with one W for queries and keys has the scores of the first, whatever W_V is.",
          .run = fmt::format("separate_attention_same_qk with {} random W_V against unified_attention; then every head "
                             "of {} with its own W_V",
                             kTries, bench.name()),
          .reason =
              "Scores are made of queries and keys alone; values come after the softmax. What differs are the "
              "outputs.",
          .checks = {
              {"max difference of scores", Relation::kEquals, 0, scores},
              {"max difference of weights", Relation::kEquals, 0, weights},
              {"max difference of outputs", Relation::kAtLeast, 0.1, outputs},
              {"max difference of scores, trained", Relation::kEquals, 0, trained},
          }};
}

}  // namespace qkv::lab::internal
