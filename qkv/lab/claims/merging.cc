// C7 to C10: merging two matrices into one. Identity, storage, cost, obstacles.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "qkv/algebra/freedom.h"
#include "qkv/algebra/logits.h"
#include "qkv/algebra/merge.h"
#include "qkv/algebra/rope.h"
#include "qkv/attention/plan.h"
#include "qkv/core/parallel.h"
#include "qkv/lab/claims/replay.h"
#include "qkv/lab/plan_trial.h"
#include "qkv/report/text.h"

namespace qkv::lab::internal {
namespace {

using attention::Order, attention::Workload;

// The second text's sizes: tokens, features, width of a projection.
constexpr int64_t kN = 2, kD = 3, kE = 4;

// max |S − S'|, divided by the bound on its rounding.
double MergedDifference(const algebra::QueryKeyView& pair, View<const double> tokens) {
  const Matrix apart = algebra::Logits(pair, tokens, tokens, 1);
  const Matrix together = algebra::Logits(algebra::Merge(pair, algebra::Terms::kExact), tokens, tokens, 1);
  const int64_t widest = std::max(tokens.dim(1), pair.query.weight.dim(0));
  return MaxDifference(apart, together) / Rounding(4, widest, LogitMagnitude(pair, tokens));
}

Workload Scores(int64_t N, int64_t D, int64_t E) {
  return {.queries = N, .keys = N, .width = D, .heads = 1, .head_width = E, .read = attention::Read::kScores};
}

// Both chains in the same order.
attention::Plan Both(Order order) { return {order, order}; }

struct OrderOfText {
  Order order;
  const char* name;
};
constexpr OrderOfText kOrdersOfText[] = {{Order::kProjected, "separate, (X W_Qᵀ)(X W_Kᵀ)ᵀ"},
                                         {Order::kAbsorbed, "re-associated, as the text did"},
                                         {Order::kMerged, "merged beforehand, (X M) Xᵀ"}};

struct Timed {
  double seconds[3];
  double difference = 0;  // of the scores, relative to the greatest score
};

template <typename T>
Timed MeasureOrders(const Workload& workload, int tries) {
  Trial<T> trial(workload);
  Timed timed{};
  std::vector<T> first;
  double greatest = 0;
  for (int i = 0; i < 3; ++i) {
    const attention::Plan plan = Both(kOrdersOfText[i].order);
    trial.Prepare(plan);
    timed.seconds[i] = BestTime([&] { trial.Run(plan); }, tries);
    const View<const T> scores = trial.Run(plan);
    if (i == 0) first.assign(scores.data(), scores.data() + scores.size());
    for (int64_t j = 0; j < scores.size(); ++j) {
      const double one = static_cast<double>(first[static_cast<size_t>(j)]);
      greatest = std::max(greatest, std::abs(one));
      timed.difference = std::max(timed.difference, std::abs(static_cast<double>(scores.data()[j]) - one));
    }
  }
  timed.difference /= greatest;
  return timed;
}

// Cost of the three orders of a case, and the cheapest plan.
struct Case {
  const char* name;
  Workload workload;
};

// 128 heads of width 128 over 4096 cached latents of width 512.
Workload LatentWorkload(int64_t queries) {
  return {.queries = queries,
          .keys = 4096,
          .width = 7168,
          .heads = 128,
          .head_width = 128,
          .cached = attention::Cached::kLatent,
          .latent = 512};
}

const std::vector<Case>& Cases() {
  static const std::vector<Case> cases = {
      {"ViT-B layer: 197 tokens, D 768, 12 heads of 64", {197, 197, 768, 12, 64}},
      {"ViT-B, one head as wide as the model", {197, 197, 768, 1, 768}},
      {"ViT-B, one head, N = 4 tokens", {4, 4, 768, 1, 768}},
      {"ViT-B, last block, only CLS is read", {1, 197, 768, 12, 64}},
      {"latent attention (MLA), one query, 4096 cached latents", LatentWorkload(1)},
      {"latent attention (MLA), 4096 tokens at once", LatentWorkload(4096)},
  };
  return cases;
}

}  // namespace

Result ReplayIdentity(const Bench& bench) {
  Rng rng(bench.seed());
  const algebra::QueryKey exact{{Integers({kE, kD}, rng), {}}, {Integers({kE, kD}, rng), {}}};
  const algebra::QueryKey rounded{{Uniform({kE, kD}, rng), {}}, {Uniform({kE, kD}, rng), {}}};
  const double integers = MergedDifference(exact, Integers({kN, kD}, rng));
  const double uniform = MergedDifference(rounded, Uniform({kN, kD}, rng));
  double trained = 0;
  for (const TrainedHead& head : bench.trained()) {
    trained = std::max(trained, MergedDifference(head.pair, *head.tokens));
  }
  return {.title = "The product of two projections is one matrix",
          .claim = "(x W_Qᵀ)(x W_Kᵀ)ᵀ = x W_Qᵀ W_K xᵀ.",
          .run = fmt::format("x {}×{} with two weights {}×{} as in the text, small integers and uniform numbers; then "
                             "every head of {} with its biases (all four terms)",
                             kN, kD, kE, kD, bench.name()),
          .reason =
              "Matrix products are associative: M = W_Qᵀ W_K stands for both. Exact in integers, up to rounding "
              "otherwise.",
          .checks = {
              {"max difference, integers", Relation::kEquals, 0, integers},
              {"max difference / bound of rounding, uniform", Relation::kAtMost, 1, uniform},
              {"max difference / bound of rounding, trained", Relation::kAtMost, 1, trained},
          }};
}

Result ReplayParameters(const Bench& bench) {
  struct Size {
    const char* name;
    int64_t D, E;
  };
  const model::VitConfig& config = bench.model().config();
  const Size sizes[] = {{"the text, small", kD, kE},
                        {"the text, large", 3000, 4000},
                        {"D = E, one wide head", 768, 768},
                        {"E = D/2, break-even", 768, 384},
                        {"ViT-B, a head", 768, 64},
                        {"the trained model, a head", config.block.width, config.block.attention.head_width}};
  report::Table table{
      "Numbers stored for queries and keys, and multiply-adds from 2000 tokens to their scores (one head)",
      {{"shape", report::Align::kLeft},
       {"D"},
       {"E"},
       {"2DE"},
       {"D²"},
       {"merged / separate"},
       {"multiply-adds, merged / separate"}},
      {}};
  Result result{
      .title = "What merging saves",
      .claim = "One matrix in place of two reduces parameters and computation.",
      .run =
          "counts of numbers and of multiply-adds, separate and merged beforehand, for the text's shapes, a head of "
          "ViT-B and one of the trained model; the rank of the scores' freedom",
      .verdict = Verdict::kHoldsUnderConditions,
      .reason =
          "D² numbers against 2DE: fewer only where E > D/2. The text's projections are wider than its tokens, so "
          "there merging saves; heads of a transformer are narrow, E = D/H, and M is D×D however thin its "
          "factors. The answer's “same number of parameters” counted no merging at all.",
      .tables = {}};
  for (const auto& [name, D, E] : sizes) {
    const auto count = algebra::CountParameters(D, E, false, algebra::Terms::kExact);
    const double separate = attention::MultiplyAdds(Both(Order::kProjected), Scores(2000, D, E));
    const double merged = attention::MultiplyAdds(Both(Order::kMerged), Scores(2000, D, E));
    const double ratio = static_cast<double>(count.merged) / static_cast<double>(count.separate);
    table.rows.push_back({name, fmt::format("{}", D), fmt::format("{}", E), report::WithCommas(count.separate),
                          report::WithCommas(count.merged), report::Number(ratio), report::Number(merged / separate)});
    result.checks.push_back({fmt::format("D²/2DE, {}", name), Relation::kEquals,
                             static_cast<double>(D) / (2 * static_cast<double>(E)), ratio, 1e-12});
  }
  result.checks.push_back({"multiply-adds saved, the text, large", Relation::kEquals, 34,
                           (attention::MultiplyAdds(Both(Order::kProjected), Scores(2000, 3000, 4000)) -
                            attention::MultiplyAdds(Both(Order::kMerged), Scores(2000, 3000, 4000))) /
                               1e9,
                           1e-9, "G"});
  result.checks.push_back(
      {"freedom of a pair with D 768, E 64: 2DE − E²", Relation::kEquals, 2 * 768 * 64 - 64 * 64,
       static_cast<double>(algebra::CountParameters(768, 64, false, algebra::Terms::kExact).freedom)});
  result.tables.push_back(std::move(table));
  return result;
}

Result ReplaySpeed(const Bench& bench) {
  const bool quick = bench.setup().quick;
  // A quarter of each size is 1/64 of the work.
  const int64_t part = quick ? 4 : 1;
  const Workload small = Scores(kN, kD, kE), large = Scores(2000 / part, 3000 / part, 4000 / part);
  const Timed small64 = MeasureOrders<double>(small, 20), small32 = MeasureOrders<float>(small, 20);
  const Timed large64 = MeasureOrders<double>(large, 2), large32 = MeasureOrders<float>(large, 2);

  report::Table times{
      fmt::format("Times on this machine, {} threads, best of several{}", NumThreads(),
                  quick ? ", the large size quartered (--quick)" : ""),
      {{"order", report::Align::kLeft}, {"multiply-adds"}, {"float64"}, {"float32"}, {"the text, float64"}},
      {}};
  report::BarChart bars{
      .heading = {"From tokens to scores, three orders", "Times of three orders of the same product on this machine"},
      .value_name = fmt::format("seconds, {}×{} tokens, projections of {}", large.keys, large.width, large.head_width),
      .series = {"float64", "float32"}};
  constexpr const char* kTextSmall[] = {"50.1 µs", "31.1 µs", "–"};
  constexpr const char* kTextLarge[] = {"2.93 s", "2.73 s", "–"};
  for (int i = 0; i < 3; ++i) {
    const attention::Plan plan = Both(kOrdersOfText[i].order);
    times.rows.push_back({fmt::format("2×3→4: {}", kOrdersOfText[i].name),
                          report::Number(attention::MultiplyAdds(plan, small)), report::Seconds(small64.seconds[i]),
                          report::Seconds(small32.seconds[i]), kTextSmall[i]});
  }
  for (int i = 0; i < 3; ++i) {
    const attention::Plan plan = Both(kOrdersOfText[i].order);
    times.rows.push_back({fmt::format("{}×{}→{}: {}", large.keys, large.width, large.head_width, kOrdersOfText[i].name),
                          fmt::format("{} G", report::Number(attention::MultiplyAdds(plan, large) / 1e9)),
                          report::Seconds(large64.seconds[i]), report::Seconds(large32.seconds[i]),
                          quick ? "–" : kTextLarge[i]});
    bars.groups.push_back({kOrdersOfText[i].name,
                           {large64.seconds[i], large32.seconds[i]},
                           {report::Seconds(large64.seconds[i]), report::Seconds(large32.seconds[i])}});
  }

  report::Table pays{
      "Where it pays: multiply-adds of a whole layer, from tokens to outputs",
      {{"case", report::Align::kLeft}, {"projected"}, {"absorbed"}, {"merged"}, {"cheapest", report::Align::kLeft}},
      {}};
  for (const Case& one : Cases()) {
    const Workload& workload = one.workload;
    const auto cost = [&](Order order) {
      const bool can = attention::CanScore(order, workload) && attention::CanSum(order, workload);
      if (!can) return std::string("–");
      const double millions = attention::MultiplyAdds(Both(order), workload) / 1e6;
      return fmt::format("{} M",
                         millions < 1000 ? report::Number(millions) : report::WithCommas(std::llround(millions)));
    };
    const attention::Plan cheapest = attention::CheapestPlan(workload);
    pays.rows.push_back(
        {one.name, cost(Order::kProjected), cost(Order::kAbsorbed), cost(Order::kMerged),
         cheapest.scores == cheapest.outputs
             ? std::string(attention::Name(cheapest.scores))
             : fmt::format("{}, then {}", attention::Name(cheapest.scores), attention::Name(cheapest.outputs))});
  }
  const Workload text = Scores(2000, 3000, 4000), head = Scores(197, 768, 64), vit = {197, 197, 768, 12, 64};
  const Workload cls = {1, 197, 768, 12, 64}, wide = {197, 197, 768, 1, 768};
  const auto giga = [](Order order, const Workload& w) { return attention::MultiplyAdds(Both(order), w) / 1e9; };
  const attention::Plan best = attention::CheapestPlan(cls);
  return {
      .title = "The chained product is faster",
      .claim = "x W_Qᵀ W_K xᵀ is faster than (x W_Qᵀ)(x W_Kᵀ)ᵀ: 31.1 against 50.1 µs, 2.73 against 2.93 s.",
      .run =
          fmt::format("the text's sizes in its two orders and merged beforehand, float64 and float32, weights packed "
                      "beforehand; operation counts of six layers"),
      .verdict = Verdict::kHoldsUnderConditions,
      .reason =
          "The text re-associated: 60 against 64 G multiply-adds at its large size, and at its small one (60 against "
          "64 "
          "in all) it timed the calls, not the arithmetic. A matrix merged beforehand needs 30 G, half. That pays for "
          "one head wider than a bit more than half of the tokens' width; with narrow heads it costs several times "
          "more, and what pays there is to absorb W_K into few queries (CLS alone, latent attention).",
      .checks =
          {
              {"separate, 2000×3000→4000", Relation::kEquals, 64, giga(Order::kProjected, text), 1e-9, "G"},
              {"re-associated", Relation::kEquals, 60, giga(Order::kAbsorbed, text), 1e-9, "G"},
              {"merged beforehand", Relation::kEquals, 30, giga(Order::kMerged, text), 1e-9, "G"},
              {"difference of the orders' scores, float64", Relation::kAtMost, 0,
               std::max(small64.difference, large64.difference), Rounding(2, large.width + large.head_width, 1)},
              {"difference of the orders' scores, float32", Relation::kAtMost, 0,
               std::max(small32.difference, large32.difference), Rounding<float>(2, large.width + large.head_width, 1)},
              {"re-associated / separate, time, float64", Relation::kObserved, 60.0 / 64,
               large64.seconds[1] / large64.seconds[0]},
              {"merged / separate, time, float64", Relation::kObserved, 30.0 / 64,
               large64.seconds[2] / large64.seconds[0]},
              {"re-associated / separate, time, float32", Relation::kObserved, 60.0 / 64,
               large32.seconds[1] / large32.seconds[0]},
              {"merged / separate, time, float32", Relation::kObserved, 30.0 / 64,
               large32.seconds[2] / large32.seconds[0]},
              {"ViT-B, a head's scores: merged / separate", Relation::kEquals, (768.0 + 197) / (64 * (2 + 197.0 / 768)),
               giga(Order::kMerged, head) / giga(Order::kProjected, head), 1e-9},
              {"ViT-B layer: merged / separate", Relation::kAtLeast, 1,
               giga(Order::kMerged, vit) / giga(Order::kProjected, vit)},
              {"one head as wide as the model: merged / separate", Relation::kAtMost, 1,
               giga(Order::kMerged, wide) / giga(Order::kProjected, wide)},
              {"CLS alone: separate / cheapest", Relation::kAtLeast, 30,
               giga(Order::kProjected, cls) / (attention::MultiplyAdds(best, cls) / 1e9)},
              {"least E/D for which merging pays, 197 tokens of 768", Relation::kEquals,
               (768.0 + 197) / (2 * 768 + 197), attention::MergingPaysAbove(197, 768), 1e-12},
          },
      .tables = {times, pays},
      .pictures = {{bars, "Counts predict the ratios 0.94 and 0.47; times never decide here."}},
  };
}

Result ReplayObstacles(const Bench& bench) {
  Rng rng(bench.seed());
  // Biases: only u = W_Kᵀ b_Q affects the softmax.
  double bias_error = 0;  // divided by its rounding bound, which exp doubles
  const auto compare = [&](const algebra::QueryKeyView& pair, View<const double> tokens, double scale) {
    const auto merged = algebra::Merge(pair, algebra::Terms::kSoftmax);
    const Matrix apart = algebra::Logits(pair, tokens, tokens, scale);
    const double bound =
        2 * Rounding(4, std::max(tokens.dim(1), tokens.dim(0)), 1 + scale * LogitMagnitude(pair, tokens));
    const Matrix merged_attention = algebra::Softmax(algebra::Logits(merged, tokens, tokens, scale));
    bias_error = std::max(bias_error, MaxDifference(algebra::Softmax(apart), merged_attention) / bound);
  };
  constexpr int64_t D = 48, E = 16, N = 20;
  const algebra::QueryKey pair{NormalProjection(E, D, rng, .5), NormalProjection(E, D, rng, .5)};
  const Matrix tokens = Normal({N, D}, rng);
  const double scale = 1 / std::sqrt(static_cast<double>(E));
  compare(pair, tokens, scale);
  for (const TrainedHead& head : bench.trained()) {
    compare(head.pair, *head.tokens, head.scale);
  }
  const Matrix plain = algebra::Softmax(algebra::Logits(pair, tokens, tokens, scale));

  // Rotary positions: a merged matrix is exact at its distance and wrong at others.
  double at_distance = 0, at_nought = 0;
  {
    const auto far = algebra::Rotate(pair.key, {}, 5);
    const algebra::QueryKeyView rotated{pair.query, far};
    const Matrix wanted = algebra::Softmax(algebra::Logits(rotated, tokens, tokens, scale));
    const auto same = algebra::Merge(rotated, algebra::Terms::kExact);
    at_nought = MaxDifference(wanted, plain);
    at_distance = MaxDifference(wanted, algebra::Softmax(algebra::Logits(same, tokens, tokens, scale)));
  }
  // QK-norm: the numerator alone gives different attention; including the norms takes three D×D matrices.
  Matrix cosine({N, N});
  {
    const Matrix q = algebra::Apply(pair.query, tokens), k = algebra::Apply(pair.key, tokens);
    for (int64_t i = 0; i < N; ++i) {
      for (int64_t j = 0; j < N; ++j) {
        double qk = 0, qq = 0, kk = 0;
        for (int64_t e = 0; e < E; ++e) {
          qk += q[i * E + e] * k[j * E + e], qq += q[i * E + e] * q[i * E + e], kk += k[j * E + e] * k[j * E + e];
        }
        cosine[i * N + j] = std::sqrt(static_cast<double>(E)) * qk / std::sqrt(qq * kk);
      }
    }
  }
  const Matrix normed = algebra::Softmax(cosine);
  const double norm_ignored = MaxDifference(normed, plain);
  const double norm_kept = MaxDifference(
      normed,
      algebra::Softmax(algebra::Logits(algebra::MergeCosine(pair), tokens, tokens, std::sqrt(static_cast<double>(E)))));

  report::Table narrow{"Why nobody merges: multiply-adds of a ViT-B layer's scores (197 tokens, D 768), by head",
                       {{"heads"}, {"E"}, {"numbers, merged / separate"}, {"multiply-adds, merged / separate"}},
                       {}};
  report::LineChart chart{
      .heading = {"Narrow heads make merging dear",
                  "Multiply-adds of merged scores relative to separate ones by the number of heads"},
      .x = {.name = "heads, E = 768/H", .log = true},
      .y = {.name = "merged / separate", .log = true},
      .series = {{.name = "multiply-adds"}, {.name = "numbers stored"}},
      .across = {{1, "no difference"}}};
  double ratio12 = 0;
  for (const int64_t heads : {1, 2, 3, 4, 6, 8, 12, 16, 24}) {
    const int64_t width = 768 / heads;
    const Workload w = Scores(197, 768, width);
    const double cost =
        attention::MultiplyAdds(Both(Order::kMerged), w) / attention::MultiplyAdds(Both(Order::kProjected), w);
    const double stored = 768.0 / (2 * static_cast<double>(width));
    if (heads == 12) ratio12 = cost;
    const auto h = static_cast<double>(heads);
    chart.series[0].samples.push_back({h, cost}), chart.series[1].samples.push_back({h, stored});
    narrow.rows.push_back(
        {fmt::format("{}", heads), fmt::format("{}", width), report::Number(stored), report::Number(cost)});
  }
  for (const int heads : {1, 2, 4, 8, 12, 24}) chart.x.ticks.push_back({double(heads), fmt::format("{}", heads)});
  // Tolerance for the random pair. Cosine-attention scores are at most √E, so the same bound covers them.
  const double tolerance = 2 * Rounding(4, D, 1 + scale * LogitMagnitude(pair, tokens));
  return {
      .title = "Why nobody merges",
      .claim = "Nobody merges because biases may come, and the code would be less readable.",
      .run = fmt::format("attention of merged biases, random and in all heads of {}{}; rotary positions and normalised "
                         "queries and keys, merged as if they were not there; counts by the number of heads",
                         bench.name(), bench.reservation()),
      .verdict = Verdict::kDoesNotHold,
      .reason =
          "Biases merge: after the softmax one vector u = W_Kᵀ b_Q a head is all that is left of them. The "
          "reasons are others: heads are narrow, so that D×D costs 6.7 times as much in ViT-B; rotary positions "
          "make another matrix for every distance; QK-norm needs the norms besides; and D² numbers train "
          "otherwise than a product of two thin ones.",
      .checks = {{"max difference of attention / bound of rounding, biases merged by u", Relation::kAtMost, 1,
                  bias_error},
                 {"rotary: difference when the distance is ignored", Relation::kAtLeast, .01, at_nought},
                 {"rotary: difference with the matrix of this distance", Relation::kAtMost, 0, at_distance, tolerance},
                 {"QK-norm: difference when the norms are ignored", Relation::kAtLeast, .01, norm_ignored},
                 {"QK-norm: difference with three D×D matrices", Relation::kAtMost, 0, norm_kept, tolerance},
                 {"12 heads: merged / separate multiply-adds", Relation::kEquals, 6.7, ratio12, .05}},
      .tables = {narrow},
      .pictures = {{chart, "Below 1 merging pays: for one head of full width, and for no more."}},
  };
}

}  // namespace qkv::lab::internal
