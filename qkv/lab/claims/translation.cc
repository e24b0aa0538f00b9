// C19 to C22, on the end of the third text, the Transformer that translates: queries and keys of two sequences,
// cross-attention as a dictionary and as smoothing, and a decoder as a language model.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "qkv/algebra/projection.h"
#include "qkv/attention/attention.h"
#include "qkv/lab/ablation_report.h"
#include "qkv/lab/claims/replay.h"
#include "qkv/lab/claims/translator.h"
#include "qkv/lab/cross_heads.h"
#include "qkv/report/text.h"

namespace qkv::lab::internal {
namespace {

// A pattern that sends token i to token i + 1 of a ring.
constexpr int64_t kRing = 8;

View<const double> AsHeads(const Matrix& m) { return m.view().reshape({1, 1, m.dim(0), m.dim(1)}); }

// The weights of a rule for queries and keys [N, E], [N, N].
Matrix WeightsOf(const nn::CrossWeights& rule, const Matrix& query, const Matrix& key) {
  const int64_t N = query.dim(0), M = key.dim(0);
  Matrix weights({1, 1, N, M});
  Tensor<int64_t> lengths({1}), positions({1, N});
  lengths[0] = M;
  for (int64_t i = 0; i < N; ++i) positions[i] = i;
  const double scale = 1 / std::sqrt(static_cast<double>(query.dim(1)));
  nn::ComputeCrossWeights<double>(rule, 0, AsHeads(query), AsHeads(key), {.scale = scale}, lengths, positions, weights);
  Matrix matrix({N, M});
  std::copy_n(weights.data(), weights.size(), matrix.data());
  return matrix;
}

// The least S_ii + S_jj − 2 S_ij, which is negative if some token prefers another's partner to its own.
double LeastCycle(const Matrix& s) {
  double least = INFINITY;
  for (int64_t i = 0; i < s.dim(0); ++i) {
    for (int64_t j = 0; j < s.dim(0); ++j) {
      const int64_t n = s.dim(1);
      least = std::min(least, s[i * n + i] + s[j * n + j] - 2 * s[i * n + j]);
    }
  }
  return least;
}

// The least weight that one projection W for queries and keys gives a ring's next token: keys of the same sequence, or
// of another one, whose tokens may be any.
double RingWeight(bool of_two_sequences) {
  constexpr double kScale = 40;  // of scores
  Matrix x({kRing, kRing}), y({kRing, kRing});
  for (int64_t i = 0; i < kRing; ++i) {
    x[i * kRing + i] = kScale;
    const int64_t partner = of_two_sequences ? (i + 1) % kRing : i;
    y[partner * kRing + i] = 1;  // W = I: the key of token i + 1 is the query of token i
  }
  const Matrix weights = WeightsOf({}, x, y);
  double least = 1;
  for (int64_t i = 0; i < kRing; ++i) least = std::min(least, weights[i * kRing + (i + 1) % kRing]);
  return least;
}

std::string SourceOf(const Bench& bench) {
  const Translator* const t = bench.translator();
  if (t == nullptr) return "; no translator was given (--translator MODEL)";
  return fmt::format("; {} on {} lines", t->name(), t->lines());
}

constexpr const char* kNoTranslator = "What a trained translator does was not measured: none was given. ";

std::string Share(double part) { return fmt::format("{:.0f} %", 100 * part); }

// The result of the stored trainings for one arm of cross-attention.
std::string CompareBleu(const AblationResults& results, std::string_view arm, int* worse, int* open,
                        std::vector<Check>* checks) {
  std::string words;
  for (const std::string& data : results.Data()) {
    const Interval d = Difference(results, data, arm, "separate", &RunResult::bleu);
    if (std::isnan(d.mean)) continue;
    const bool is_worse = d.mean + d.half < 0;
    ++(is_worse ? *worse : *open);
    words += fmt::format("On {} {} − separate is {} BLEU: {}. ", data, arm, Percent({d.mean / 100, d.half / 100}, true),
                         is_worse              ? "worse"
                         : d.mean - d.half > 0 ? "better"
                                               : "left open");
    checks->push_back(
        {fmt::format("{}: cross-attention {} − separate, BLEU", data, arm), Relation::kObserved, kNan, d.mean});
  }
  return words;
}

report::Table HeadTable(const Translator& translator) {
  using report::Align;
  report::Table table{.title = "Heads of cross-attention",
                      .columns = {{"head", Align::kLeft},
                                  {"entropy, bits"},
                                  {"of uniform"},
                                  {"distance from the diagonal, tokens"},
                                  {"on the diagonal"},
                                  {"on the end token"},
                                  {"on punctuation"},
                                  {"loss if uniform"}},
                      .rows = {}};
  const double loss = translator.Loss();
  for (const CrossHead& head : MeasureCrossHeads(translator.model(), translator.set(), translator.tokenizer())) {
    const double without = translator.Loss({.rule = nn::CrossRule::kUniform, .heads = {{head.block, head.head}}});
    table.rows.push_back({fmt::format("{}.{}", head.block, head.head), fmt::format("{:.2f}", head.entropy),
                          fmt::format("{:.2f}", head.uniform), fmt::format("{:.1f}", head.distance),
                          Share(head.diagonal), Share(head.end), Share(head.punctuation),
                          fmt::format("{:+.3f}", without - loss)});
  }
  return table;
}

}  // namespace

Result ReplayTwoSequences(const Bench& bench) {
  Rng rng(bench.seed());
  constexpr int64_t N = 12, D = 16, E = 8;
  const Matrix x = Normal({N, D}, rng), y = Normal({N, D}, rng), w = Normal({D, E}, rng);
  const Matrix own = Multiply(x, w), other = Multiply(y, w);
  const Matrix within = Multiply(own, algebra::Transpose(own)), across = Multiply(own, algebra::Transpose(other));
  Result result{
      .title = "Queries and keys of two sequences",
      .claim =
          "A translator's queries come from the text that it writes, its keys and values from the text that it reads, "
          "so they need projections of their own.",
      .run = fmt::format("scores of {} random tokens with one projection for queries and keys, of one sequence and of "
                         "two; a ring of {} tokens",
                         N, kRing),
      .checks = {{"one sequence, one W: least S_ii + S_jj − 2 S_ij", Relation::kAtLeast, 0, LeastCycle(within),
                  Rounding(4, D, 4 * Norm(own) * Norm(own))},
                 {"two sequences, one W: least S_ii + S_jj − 2 S_ij", Relation::kAtMost, 0, LeastCycle(across)},
                 {"ring, one W, one sequence: weight on the next token", Relation::kAtMost, .5, RingWeight(false)},
                 {"ring, one W, two sequences: weight on the next token", Relation::kAtLeast, .99, RingWeight(true)}},
      .tables = {},
      .pictures = {}};
  result.reason =
      "Between two sequences one W restricts less than within one: a token never meets itself, so scores need not be "
      "symmetric or positive, and the layers before can turn one side's tokens to the other's. What is left of the "
      "restriction is that both sides are compared by the same features. ";
  int worse = 0, open = 0;
  for (const AblationResults& results : bench.cross_ablations()) {
    for (const char* arm : {"shared", "unified", "shared_kv", "merged"}) {
      int* const counted[] = {&worse, &open};
      int ignored[2] = {0, 0};
      const bool decides = std::string_view(arm) == "shared";
      result.reason += CompareBleu(results, arm, decides ? counted[0] : &ignored[0], decides ? counted[1] : &ignored[1],
                                   &result.checks);
    }
    for (const std::string& data : results.Data()) {
      const std::vector<ArmSummary> arms = Summarise(results, data);
      if (arms.size() < 2) continue;
      result.tables.push_back(AccuracyTable(arms, fmt::format("{}: kinds of cross-attention", data)));
      result.pictures.push_back({BleuChart(arms, data), "Means with intervals of 95 %."});
    }
  }
  if (worse + open == 0) {
    result.verdict = Verdict::kNotMeasured;
    result.reason += "Whether a translator needs both is a question to trainings, of which no results are stored here.";
  } else {
    result.verdict = worse > 0 ? Verdict::kHoldsUnderConditions : Verdict::kOpen;
    result.reason += "Small models, trained briefly.";
  }
  return result;
}

Result ReplaySoftDictionary(const Bench& bench) {
  Rng rng(bench.seed());
  constexpr int64_t N = 12, E = 8;
  const Matrix q = Normal({N, E}, rng), k = Normal({N, E}, rng);
  const Matrix hard = WeightsOf({.rule = nn::CrossRule::kHard}, q, k),
               uniform = WeightsOf({.rule = nn::CrossRule::kUniform}, q, k),
               cold = WeightsOf({.temperature = 1e-6}, q, k), hot = WeightsOf({.temperature = 1e6}, q, k);
  Result result{
      .title = "Cross-attention as a dictionary",
      .claim =
          "Cross-attention looks each word up in the source as in a soft dictionary: softmax mixes values where a "
          "dictionary returns one.",
      .run = fmt::format("look-ups of {} random queries among as many keys{}", N, SourceOf(bench)),
      .checks = {{"softmax at temperature 1e-6 against the hard look-up, max difference", Relation::kAtMost, 0,
                  MaxDifference(cold, hard), 1e-9},
                 {"softmax at temperature 1e6 against uniform weights, max difference", Relation::kAtMost, 0,
                  MaxDifference(hot, uniform), 1e-5}},
      .tables = {},
      .pictures = {}};
  result.reason = "Hard look-up and uniform weights are the limits of one family, by the temperature of the softmax. ";
  const Translator* const translator = bench.translator();
  if (translator == nullptr) {
    result.reason += kNoTranslator;
    return result;
  }
  const nn::CrossWeights look_up{.rule = nn::CrossRule::kHard}, mean{.rule = nn::CrossRule::kUniform};
  const double soft = translator->Bleu(), of_hard = translator->Bleu(look_up), of_mean = translator->Bleu(mean);
  result.checks.insert(result.checks.end(),
                       {{"translator, softmax: BLEU", Relation::kObserved, kNan, soft},
                        {"translator, hard look-up: BLEU", Relation::kObserved, kNan, of_hard},
                        {"translator, uniform weights: BLEU", Relation::kObserved, kNan, of_mean},
                        {"translator, softmax: loss", Relation::kObserved, kNan, translator->Loss()},
                        {"translator, hard look-up: loss", Relation::kObserved, kNan, translator->Loss(look_up)},
                        {"translator, uniform weights: loss", Relation::kObserved, kNan, translator->Loss(mean)}});
  constexpr double kMostKept = .9, kLittleKept = .5;  // of the BLEU, for the words below
  result.verdict = of_mean < kLittleKept * soft ? Verdict::kHolds : Verdict::kHoldsUnderConditions;
  result.reason += fmt::format(
      "The translator's BLEU of {:.1f} becomes {:.1f} by hard look-ups: {}. By uniform weights it becomes {:.1f}: {}. ",
      soft, of_hard,
      of_hard >= kMostKept * soft ? "one token at a time is nearly all that it uses, in heads that were trained to mix"
                                  : "the mixture carries a part that one token does not",
      of_mean,
      of_mean < kLittleKept * soft ? "which tokens are looked up is most of what cross-attention does"
                                   : "much of what it uses is a mean of the source");
  result.tables.push_back(HeadTable(*translator));
  return result;
}

Result ReplayAlongTheDiagonal(const Bench& bench) {
  Rng rng(bench.seed());
  constexpr int64_t N = 12, E = 8;
  constexpr double kBandwidth = 1.5;
  const nn::CrossWeights gaussian{.rule = nn::CrossRule::kGaussian, .bandwidth = kBandwidth};
  const Matrix one = WeightsOf(gaussian, Normal({N, E}, rng), Normal({N, E}, rng)),
               two = WeightsOf(gaussian, Normal({N, E}, rng), Normal({N, E}, rng));
  double ratio = 0;
  for (int64_t i = 0; i < N; ++i) {
    for (int64_t j = 0; j < N; ++j) {
      const double d = static_cast<double>(j - i);
      ratio =
          std::max(ratio, std::abs(one[i * N + j] / one[i * N + i] - std::exp(-d * d / (2 * kBandwidth * kBandwidth))));
    }
  }
  Result result{
      .title = "Smoothing along the diagonal",
      .claim = "Smoothing weighs by place and attention by content, so smoothing cannot do what cross-attention does.",
      .run = fmt::format("Gaussian weights of {} random queries and keys{}", N, SourceOf(bench)),
      .checks = {{"weights against exp(−d²/2h²), max difference of ratios", Relation::kAtMost, 0, ratio, 1e-12},
                 {"weights of other tokens, max difference", Relation::kEquals, 0, MaxDifference(one, two)}},
      .tables = {},
      .pictures = {}};
  result.reason = "A Gaussian around the diagonal knows how far a sentence is, and nothing of its words. ";
  const Translator* const translator = bench.translator();
  if (translator == nullptr) {
    result.reason += kNoTranslator;
    return result;
  }
  nn::CrossWeights best{.rule = nn::CrossRule::kGaussian, .slope = translator->slope()};
  report::LineChart chart{.heading = {"Smoothing in place of cross-attention", "BLEU by the bandwidth of the Gaussian"},
                          .x = {.name = "bandwidth, source tokens"},
                          .y = {.name = "BLEU"},
                          .series = {{.name = "Gaussian along the diagonal"}}};
  double smooth = -1;
  for (const double h : {.25, .5, 1., 2., 4.}) {
    nn::CrossWeights rule = best;
    rule.bandwidth = h;
    const double bleu = translator->Bleu(rule);
    chart.series[0].samples.push_back({h, bleu});
    if (bleu > smooth) smooth = bleu, best.bandwidth = h;
  }
  const double soft = translator->Bleu(), mean = translator->Bleu({.rule = nn::CrossRule::kUniform});
  chart.across = {{soft, "softmax"}, {mean, "uniform"}};
  result.checks.insert(result.checks.end(),
                       {{"translator, softmax: BLEU", Relation::kObserved, kNan, soft},
                        {"translator, Gaussian: BLEU", Relation::kObserved, kNan, smooth},
                        {"translator, uniform weights: BLEU", Relation::kObserved, kNan, mean},
                        {"translator, Gaussian: bandwidth", Relation::kObserved, kNan, best.bandwidth, 0, "tokens"},
                        {"translator, Gaussian: loss", Relation::kObserved, kNan, translator->Loss(best)}});
  result.pictures.push_back({chart, "The bandwidth with the greatest BLEU is used; it is chosen by these lines."});
  constexpr double kLittleKept = .5;  // of the BLEU
  result.verdict = smooth < kLittleKept * soft ? Verdict::kHolds : Verdict::kHoldsUnderConditions;
  result.reason += fmt::format(
      "With {:.2f} source tokens per target token and the best of five bandwidths, {} tokens, the translator's BLEU of "
      "{:.1f} becomes {:.1f}, that of uniform weights is {:.1f}. What the diagonal carries is what word order has in "
      "common; the model was not trained for it.",
      translator->slope(), best.bandwidth, soft, smooth, mean);
  return result;
}

Result ReplayLanguageModel(const Bench& bench) {
  Rng rng(bench.seed());
  constexpr int64_t N = 12, E = 8;
  const Matrix q = Normal({N, E}, rng), k = Normal({N, E}, rng), v = Normal({N, E}, rng);
  Matrix other_k = k.Clone(), other_v = v.Clone();
  for (int64_t e = 0; e < E; ++e) other_k[(N - 1) * E + e] += 1, other_v[(N - 1) * E + e] += 1;
  const auto attend = [&](const Matrix& keys, const Matrix& values) {
    Matrix out({1, 1, N, E});
    Arena arena;
    attention::Attention<double>(AsHeads(q), AsHeads(keys), AsHeads(values), {.causal = attention::Causal::kTopLeft},
                                 out, arena);
    Matrix rows({N - 1, E});
    std::copy_n(out.data(), rows.size(), rows.data());
    return rows;
  };
  Result result{
      .title = "Translation and models of language",
      .claim =
          "The same layers translate, model language and summarise: a decoder predicts the next word of a text, "
          "alone or with a source.",
      .run = fmt::format("causal attention of {} random tokens, of which the last one changes{}", N, SourceOf(bench)),
      .checks = {{"outputs of the tokens before a changed one, max difference", Relation::kEquals, 0,
                  MaxDifference(attend(k, v), attend(other_k, other_v))}},
      .tables = {},
      .pictures = {}};
  result.reason =
      "A causal decoder gives each token a probability after those before it: with a source it translates. ";
  const Translator* const translator = bench.translator();
  if (translator == nullptr) {
    result.reason += kNoTranslator;
    return result;
  }
  const double own = translator->Loss(), other = translator->LossWithOtherSources(),
               guess = std::log(static_cast<double>(translator->model().decoder().config().outputs));
  result.checks.insert(result.checks.end(),
                       {{"translator, with its source: loss", Relation::kObserved, kNan, own},
                        {"translator, with the source of another line: loss", Relation::kObserved, kNan, other},
                        {"all tokens equally probable: loss", Relation::kObserved, kNan, guess}});
  result.verdict = own < other && own < guess ? Verdict::kHolds : Verdict::kDoesNotHold;
  result.reason += fmt::format(
      "The translator's loss is {:.2f} nats a token with the right source and {:.2f} with that of another line, which "
      "leads it astray; if all tokens were equally probable it would be {:.2f}. Summaries are pairs too: --translator "
      "takes "
      "a model of them.",
      own, other, guess);
  return result;
}

}  // namespace qkv::lab::internal
