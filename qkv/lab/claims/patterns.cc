#include "qkv/lab/claims/patterns.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "qkv/algebra/logits.h"
#include "qkv/algebra/parts.h"
#include "qkv/algebra/shared.h"
#include "qkv/core/error.h"
#include "qkv/lab/claims/replay.h"
#include "qkv/report/text.h"

namespace qkv::lab {
namespace {

int64_t Next(const Pattern& pattern, int64_t token) { return pattern[static_cast<size_t>(token)]; }

// Steps from a token to the cycle it ends in; 0 on it.
int64_t Depth(const Pattern& pattern, int64_t token) {
  const auto N = static_cast<int64_t>(pattern.size());
  for (int64_t depth = 0;; ++depth, token = Next(pattern, token)) {
    int64_t at = Next(pattern, token);
    for (int64_t i = 1; i < N && at != token; ++i) at = Next(pattern, at);
    if (at == token) return depth;
  }
}

}  // namespace

std::vector<Pattern> AllPatterns(int64_t N) {
  Pattern pattern(static_cast<size_t>(N), 0);
  std::vector<Pattern> all;
  for (;;) {
    all.push_back(pattern);
    int64_t i = N - 1;
    while (i >= 0 && ++pattern[static_cast<size_t>(i)] == N) pattern[static_cast<size_t>(i--)] = 0;
    if (i < 0) return all;
  }
}

int64_t LongestCycle(const Pattern& pattern) {
  int64_t longest = 0;
  for (int64_t token = 0; token < static_cast<int64_t>(pattern.size()); ++token) {
    if (Depth(pattern, token) > 0) continue;
    int64_t length = 1;
    for (int64_t at = Next(pattern, token); at != token; at = Next(pattern, at)) ++length;
    longest = std::max(longest, length);
  }
  return longest;
}

Pattern FindPattern(View<const double> scores) {
  Pattern pattern;
  for (int64_t i = 0; i < scores.dim(0); ++i) {
    int64_t best = 0;
    bool tie = false;
    for (int64_t j = 1; j < scores.dim(1); ++j) {
      const double difference = *scores.at(i, j) - *scores.at(i, best);
      tie = difference == 0 || (tie && difference < 0);
      if (difference > 0) best = j;
    }
    pattern.push_back(tie ? -1 : best);
  }
  return pattern;
}

Tensor<double> SharedVectorsFor(const Pattern& pattern) {
  Require(LongestCycle(pattern) == 1, "pattern: expected no cycle but fixed points, got one of {}",
          LongestCycle(pattern));
  // Token i has a direction of its own, of length δ, plus half of its target's δ in the target's direction. With δ =
  // 4^(−depth): q_i·q_next = δ_next²/2, ‖q_i‖² = 5/16 δ_next², siblings δ_next²/4, children less, others 0.
  const auto N = static_cast<int64_t>(pattern.size());
  Tensor<double> vectors({N, N});
  const auto length = [&](int64_t token) { return std::pow(0.25, static_cast<double>(Depth(pattern, token))); };
  for (int64_t i = 0; i < N; ++i) {
    vectors[i * N + i] = length(i);
    if (Next(pattern, i) != i) vectors[i * N + Next(pattern, i)] = length(Next(pattern, i)) / 2;
  }
  return vectors;
}

Tensor<double> SymmetricScoresFor(const Pattern& pattern) {
  Require(LongestCycle(pattern) <= 2, "pattern: expected no cycle longer than two, got one of {}",
          LongestCycle(pattern));
  const auto N = static_cast<int64_t>(pattern.size());
  Tensor<double> scores({N, N});
  for (int64_t i = 0; i < N; ++i) {
    const int64_t j = Next(pattern, i);
    scores[i * N + j] = scores[j * N + i] = std::pow(0.5, static_cast<double>(Depth(pattern, i)));
  }
  return scores;
}

std::pair<Pattern, Pattern> SplitIntoForests(const Pattern& pattern) {
  // In the first head, the first token of each cycle attends to itself; in the second, all other tokens do.
  Pattern first = pattern, second(pattern.size());
  for (size_t i = 0; i < second.size(); ++i) second[i] = static_cast<int64_t>(i);
  for (int64_t token = 0; token < static_cast<int64_t>(pattern.size()); ++token) {
    if (Depth(pattern, token) > 0) continue;
    int64_t least = token;
    for (int64_t at = Next(pattern, token); at != token; at = Next(pattern, at)) least = std::min(least, at);
    if (least == token)
      first[static_cast<size_t>(token)] = token, second[static_cast<size_t>(token)] = Next(pattern, token);
  }
  return {first, second};
}

namespace internal {
namespace {

constexpr int64_t kRing = 8;      // tokens of the pattern "attend to the next token"
constexpr double kSharpness = 8;  // of its scores: the softmax gives the next token more than 0.99

Matrix RingWeights() {  // of keys: the query of token i − 1 selects one-hot token i
  Matrix w({kRing, kRing});
  for (int64_t i = 0; i < kRing; ++i) w[i * kRing + (i + 1) % kRing] = kSharpness;
  return w;
}

Matrix Identity(int64_t n) {
  Matrix eye({n, n});
  for (int64_t i = 0; i < n; ++i) eye[i * n + i] = 1;
  return eye;
}

// Mean weight on the next token.
double WeightOnNextToken(const Matrix& weights) {
  double sum = 0;
  for (int64_t i = 0; i < kRing; ++i) sum += weights[i * kRing + (i + 1) % kRing];
  return sum / kRing;
}

report::Heatmap RingPicture(const Matrix& weights, std::string title) {
  std::vector<std::string> names;
  for (int64_t i = 0; i < kRing; ++i) names.push_back(fmt::format("{}", i + 1));
  return {.heading = {std::move(title)},
          .row_name = "query",
          .column_name = "key",
          .rows = names,
          .columns = names,
          .row_count = kRing,
          .column_count = kRing,
          .values = {weights.span().begin(), weights.span().end()},
          .low = 0,
          .high = 1,
          .value_name = "weight",
          .cell = 28};
}

// Wᵀ diag(signs) W: the scores of one-hot tokens.
Matrix FitScores(const algebra::SymmetricFit& fit) {
  Matrix signed_weight = fit.weight.Clone();
  for (int64_t i = 0; i < signed_weight.size(); ++i) signed_weight[i] *= fit.signs[i / fit.weight.dim(1)];
  return Multiply(algebra::Transpose(fit.weight), signed_weight);
}

}  // namespace

Result ReplayRestriction(const Bench& bench) {
  Rng rng(bench.seed());
  const Matrix w_k = RingWeights(), w_q = Identity(kRing), tokens = Identity(kRing);
  std::vector<int64_t> next;
  for (int64_t i = 0; i < kRing; ++i) next.push_back((i + 1) % kRing);

  // Stored as input × output: the transpose of the algebra's W_K.
  const Matrix separate = Multiply(w_q, w_k);
  double excess = -INFINITY, pair = -INFINITY;
  constexpr int kTries = 1000;
  for (int i = 0; i < kTries; ++i) {
    const auto shared = NormalProjection(1 + i % (2 * kRing), kRing, rng);
    const Matrix S = algebra::Logits({shared, shared}, tokens, tokens, kSharpness);
    excess = std::max(excess, algebra::CycleExcess(S, next));
    pair = std::max(pair, algebra::PairExcess(S));
  }
  const auto fit = algebra::FitShared(w_q, w_k, kRing);
  const auto indefinite = algebra::FitSymmetric(w_q, w_k, kRing);
  const Matrix right = algebra::Softmax(separate), best = algebra::Softmax(FitScores(fit));

  // ‖M‖² = N; the eigenvalues of M_s are cos(2πk/N), of which the positive ones can be represented.
  double kept = 0;
  for (int64_t k = 0; k < kRing; ++k) {
    const double eigenvalue = std::cos(2 * std::numbers::pi * static_cast<double>(k) / kRing);
    kept += eigenvalue > 0 ? eigenvalue * eigenvalue : 0;
  }
  const double ring = static_cast<double>(kRing);

  report::Table table{"What is left of trained heads when their weights are shared (residual of M, relative)",
                      {{"block"},
                       {"shared WᵀW, mean", report::Align::kRight},
                       {"UΛUᵀ, mean", report::Align::kRight},
                       {"symmetry, mean", report::Align::kRight}},
                      {}};
  report::BarChart bars{.heading = {"How far trained heads are from shared ones",
                                    "Mean relative residual of the best shared and the best symmetric fit, by block"},
                        .value_name = "relative residual of the best fit of the head's own width, mean over heads",
                        .series = {"shared, WᵀW", "symmetric, UΛUᵀ"}};
  double least = 2, greatest = 0;
  for (int64_t block = 0; block < bench.depth(); ++block) {
    double shared = 0, symmetric = 0, score = 0;
    for (const TrainedHead& head : bench.trained()) {
      if (head.block != block) continue;
      const auto& [q, k] = head.pair;
      const int64_t E = q.weight.dim(0);
      const double one = algebra::FitShared(q.weight, k.weight, E).residual_relative;
      least = std::min(least, one), greatest = std::max(greatest, one);
      shared += one / static_cast<double>(bench.heads());
      symmetric += algebra::FitSymmetric(q.weight, k.weight, E).residual_relative / static_cast<double>(bench.heads());
      score += algebra::SymmetryScore(q.weight, k.weight) / static_cast<double>(bench.heads());
    }
    table.rows.push_back(
        {fmt::format("{}", block), report::Number(shared), report::Number(symmetric), report::Number(score)});
    bars.groups.push_back({fmt::format("block {}", block), {shared, symmetric}, {}});
  }
  report::Table published{"What others measured when they trained with W_Q = W_K",
                          {{"task", report::Align::kLeft}, {"separate"}, {"shared"}, {"source", report::Align::kLeft}},
                          {{"CIFAR-10", ".663", ".666", "Kayyam"},
                           {"CIFAR-100", ".363", ".369", "Kayyam"},
                           {"ImageNet, ViT-S/16, one seed", ".744", ".704", "Kayyam; not controlled"},
                           {"REVERSE", ".529", ".475", "Kayyam"},
                           {"SORT", ".753", ".691", "Kayyam"},
                           {"SWAP", ".524", ".471", "Kayyam"},
                           {"COPY", ".991", ".994", "Kayyam"}}};
  return {
      .title = "Sharing restricts what a head can look for",
      .claim = "With one projection for queries and keys a patch can only look for what resembles it.",
      .run = fmt::format("the pattern “look at the next token” on a ring of {} tokens; {} random shared projections of "
                         "width 1 to {}; the nearest shared and the nearest symmetric weights, of the ring and of all "
                         "heads of {}",
                         kRing, kTries, 2 * kRing, bench.name()),
      .verdict = Verdict::kHoldsUnderConditions,
      .reason =
          "True of what one head can express: shared scores are positive semidefinite, so S_ii + S_jj ≥ 2 S_ij, "
          "and no cycle of tokens can prefer their successors to themselves. What it costs after training depends "
          "on the task: tasks with a direction lose, small image sets hardly show it, and several heads and the "
          "layers between them make up for much.",
      .checks =
          {
              {"weight on the next token, separate", Relation::kEquals, 1 / (1 + (ring - 1) * std::exp(-kSharpness)),
               WeightOnNextToken(right), 1e-12},
              {"cycle excess, separate", Relation::kEquals, ring * kSharpness, algebra::CycleExcess(separate, next),
               Rounding(2, kRing, ring * kSharpness)},
              {fmt::format("cycle excess, greatest of {} shared", kTries), Relation::kAtMost, 0, excess, 1e-9},
              {fmt::format("S_ij + S_ji − S_ii − S_jj, greatest of {} shared", kTries), Relation::kAtMost, 0, pair,
               1e-9},
              {"relative residual of the best shared fit of the ring", Relation::kEquals,
               std::sqrt((ring - kept) / ring), fit.residual_relative, 1e-9},
              {"relative residual of the best symmetric fit of the ring", Relation::kEquals, std::sqrt(.5),
               indefinite.residual_relative, 1e-9},
              {"weight on the next token, best shared fit", Relation::kAtMost, 0.5, WeightOnNextToken(best)},
              {"residual of trained heads, least", Relation::kObserved, kNan, least},
              {"residual of trained heads, greatest", Relation::kObserved, kNan, greatest},
          },
      .tables = {table, published},
      .pictures = {{RingPicture(right, "“Look at the next token”, separate"), "Exact with W_Q = I and W_K a shift."},
                   {RingPicture(best, "The nearest a shared projection comes"),
                    "The best WᵀW: every token prefers itself, and looks backwards as much as forwards."},
                   {bars, "1 would mean that nothing of the head's M is left."}},
  };
}

Result ReplayPatterns(const Bench& bench) {
  constexpr int64_t kN = 4;
  const std::vector<Pattern> all = AllPatterns(kN);
  const auto count = static_cast<double>(all.size());
  int64_t separate = 0, symmetric = 0, shared = 0, pairs = 0, impossible = 0, forests = 0;
  const auto makes = [](const Matrix& vectors, const Pattern& pattern) {
    return FindPattern(Multiply(vectors, algebra::Transpose(vectors))) == pattern;
  };
  for (const Pattern& pattern : all) {
    Matrix scores({kN, kN});  // one-hot queries, keys from the pattern's columns
    for (int64_t i = 0; i < kN; ++i) scores[i * kN + Next(pattern, i)] = 1;
    separate += FindPattern(scores) == pattern;
    symmetric += LongestCycle(pattern) <= 2 && FindPattern(SymmetricScoresFor(pattern)) == pattern;
    forests += LongestCycle(pattern) == 1;
    shared += LongestCycle(pattern) == 1 && makes(SharedVectorsFor(pattern), pattern);
    const auto [first, second] = SplitIntoForests(pattern);
    bool covered = makes(SharedVectorsFor(first), first) && makes(SharedVectorsFor(second), second);
    for (int64_t i = 0; i < kN; ++i)
      covered &= Next(first, i) == Next(pattern, i) || Next(second, i) == Next(pattern, i);
    pairs += covered;
  }
  // Random search finds no pattern that the theory excludes.
  Rng rng(bench.seed());
  std::set<Pattern> found_shared, found_separate;
  const int tries = bench.setup().quick ? 20'000 : 200'000;
  for (int i = 0; i < tries; ++i) {
    const Matrix q = Normal({kN, kN}, rng), k = Normal({kN, kN}, rng);
    const Pattern one = FindPattern(Multiply(q, algebra::Transpose(q)));
    impossible += LongestCycle(one) > 1;
    found_shared.insert(one);
    found_separate.insert(FindPattern(Multiply(q, algebra::Transpose(k))));
  }
  const double n = kN;
  report::Table table{
      "Patterns of 4 tokens that can be made",
      {{"scores of", report::Align::kLeft}, {"one head"}, {"of 256"}, {"found by chance"}},
      {{"separate W_Q and W_K", fmt::format("{}", separate), "100%", fmt::format("{}", found_separate.size())},
       {"symmetric UΛUᵀ", fmt::format("{}", symmetric),
        fmt::format("{:.0f}%", 100 * static_cast<double>(symmetric) / count), "–"},
       {"shared W_Q = W_K", fmt::format("{}", shared),
        fmt::format("{:.0f}%", 100 * static_cast<double>(shared) / count), fmt::format("{}", found_shared.size())},
       {"two shared heads together", fmt::format("{}", pairs), "100%", "–"}}};
  report::BarChart bars{
      .heading = {"What a head can look at", "Patterns of four tokens that each form reaches, of 256"},
      .value_name = "patterns of 256 (which token each of 4 tokens looks at most)"};
  for (const auto& [name, reached] :
       {std::pair{"separate", separate}, {"symmetric", symmetric}, {"shared", shared}, {"two shared heads", pairs}}) {
    bars.groups.push_back({name, {static_cast<double>(reached)}, {fmt::format("{}", reached)}});
  }
  return {
      .title = "Separate matrices, several heads",
      .claim = "Separate matrices let different patches look for different things at the same time.",
      .run = fmt::format("every pattern of {} one-hot tokens (which token each looks at most), made by separate, "
                         "symmetric and shared projections and by two shared heads; {} random ones of each",
                         kN, tries),
      .verdict = Verdict::kHoldsUnderConditions,
      .reason =
          "One head with separate matrices reaches every pattern, a shared one only those in which no tokens look "
          "around in a circle, (N + 1)^(N − 1) of N^N. But a shared head, too, lets different tokens look at "
          "different things, and two of them reach between them what one shared head cannot: heads do a part of "
          "what separation does.",
      .checks = {{"separate, one head", Relation::kEquals, std::pow(n, n), static_cast<double>(separate)},
                 {"symmetric, one head", Relation::kEquals, 218, static_cast<double>(symmetric)},
                 {"shared, one head", Relation::kEquals, std::pow(n + 1, n - 1), static_cast<double>(shared)},
                 {"patterns without a circle", Relation::kEquals, std::pow(n + 1, n - 1), static_cast<double>(forests)},
                 {"shared, two heads", Relation::kEquals, std::pow(n, n), static_cast<double>(pairs)},
                 {"forbidden patterns found by chance, shared", Relation::kEquals, 0, static_cast<double>(impossible)},
                 {"patterns found by chance, shared", Relation::kAtMost, std::pow(n + 1, n - 1),
                  static_cast<double>(found_shared.size())},
                 {"patterns found by chance, separate", Relation::kObserved, kNan,
                  static_cast<double>(found_separate.size())}},
      .tables = {table},
      .pictures = {{bars, ""}},
  };
}

}  // namespace internal
}  // namespace qkv::lab
