#include "qkv/lab/plan_timing.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "qkv/lab/plan_trial.h"
#include "qkv/simd/attention/tile.h"
#include "qkv/simd/gemm/gemm_task.h"
#include "qkv/simd/rates.h"

namespace qkv::lab {
namespace {

using attention::Cached, attention::Order, attention::Plan, attention::Read, attention::Step, attention::Workload,
    attention::kOrders;

// Below this many rows, latency of the multiply-adds dominates: a tile takes as long as one of this many rows.
constexpr int64_t kLeastRows = 4;
// At least this many products are distributed to threads whole, with one call.
constexpr int64_t kManyProducts = 8;

// Assumed capacity of the caches between runs. The system's figure is unsuitable: on a part of a large processor it
// covers the whole processor.
constexpr double kCachedBytes = 16 << 20;

double Padded(int64_t n, int64_t multiple) { return static_cast<double>((n + multiple - 1) / multiple * multiple); }

template <typename T>
void AddTerms(const Step& step, Terms& terms) {
  const auto add = [&](Term term, double count) { terms[static_cast<size_t>(term)] += count; };
  const auto count = static_cast<double>(step.count), rows = static_cast<double>(step.rows),
             inner = static_cast<double>(step.inner), columns = static_cast<double>(step.columns),
             values = static_cast<double>(step.values);
  const auto tile_rows = static_cast<double>(std::max(step.rows, kLeastRows));
  switch (step.kind) {
    case Step::Kind::kWeights:
      add(Term::kProductCall, count);
      add(Term::kProduct, count * tile_rows * inner * Padded(step.columns, simd::internal::GemmPanel<T>()));
      add(Term::kWeights, count * inner * columns);
      add(Term::kRows, count * rows * (inner + columns));
      if (step.heads > 1) add(Term::kHeadRows, count * rows * static_cast<double>(step.heads));
      break;
    case Step::Kind::kProduct:
      add(Term::kScoreCall, step.count >= kManyProducts ? 1 : count);
      add(Term::kScore, count * tile_rows * inner * Padded(step.columns, simd::internal::GemmPanel<T>()));
      add(Term::kScorePacking, count * inner * columns);
      add(Term::kRows, count * rows * (inner + columns));
      add(Term::kTask, count);
      break;
    case Step::Kind::kAttention: {
      const double keys = Padded(step.columns, simd::AttentionPanel<T>());
      add(Term::kAttentionCall, 1);
      add(Term::kAttention, count * tile_rows * keys * (inner + values));
      add(Term::kExponential, count * rows * keys);
      add(Term::kAttentionKeys, count * columns * (inner + values));
      add(Term::kRows, count * rows * (inner + values));
      add(Term::kTask, count);
      break;
    }
    case Step::Kind::kHeads:
      add(Term::kProductCall, 1);
      add(Term::kHeads, step.elements);
      break;
  }
}

double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

int64_t LogUniform(Rng& rng, double low, double high) {
  return std::llround(low * std::exp(rng.Uniform() * std::log(std::max(1.0, high / low))));
}

}  // namespace

template <typename T>
Terms PlanTerms(const Plan& plan, const Workload& workload) {
  Terms terms{};
  for (const Step& step : PlanSteps(plan, workload)) AddTerms<T>(step, terms);
  return terms;
}

Terms FitPrices(std::span<const Terms> rows, std::span<const double> seconds) {
  // Normal equations G x = c of the rows relative to their seconds, with terms scaled to similar size.
  Terms scale{}, c{}, x{};
  std::array<Terms, kTerms> G{};
  for (size_t r = 0; r < rows.size(); ++r) {
    for (size_t i = 0; i < kTerms; ++i) scale[i] += std::pow(rows[r][i] / seconds[r], 2);
  }
  for (double& s : scale) s = s > 0 ? 1 / std::sqrt(s) : 0;
  for (size_t r = 0; r < rows.size(); ++r) {
    for (size_t i = 0; i < kTerms; ++i) {
      const double a = rows[r][i] / seconds[r] * scale[i];
      c[i] += a;
      for (size_t j = 0; j < kTerms; ++j) G[i][j] += a * rows[r][j] / seconds[r] * scale[j];
    }
  }
  constexpr int kSweeps = 3000;  // terms are correlated, so descent is slow; this takes some milliseconds
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    for (size_t i = 0; i < kTerms; ++i) {
      if (scale[i] == 0) continue;  // the term never occurred; the others have G[i][i] = 1
      double rest = c[i];
      for (size_t j = 0; j < kTerms; ++j) rest -= G[i][j] * x[j];
      x[i] = std::max(0.0, x[i] + rest / G[i][i]);
    }
  }
  for (size_t i = 0; i < kTerms; ++i) x[i] *= scale[i];
  return x;
}

template <typename T>
Costs MeasureCosts() {
  constexpr int kWorkloads = 60, kRounds = 5;
  constexpr double kSeconds = 0.015;  // per workload at least: small shapes need many rounds for an undisturbed one
  constexpr double kMost = 1e8;       // multiply-adds of the largest workload: at most a millisecond
  constexpr double kClose = 4, kAlwaysClose = 2e6;
  std::vector<Terms> rows;
  std::vector<double> seconds;
  Rng rng(40);
  for (int i = 0; i < kWorkloads; ++i) {
    const Workload w = RandomWorkload(rng, kMost);
    Trial<T> trial(w);
    // Exclude plans far from the cheapest: their cache behaviour differs and would distort the costs of the others.
    const double close = kClose * MultiplyAdds(CheapestPlan(w), w) + kAlwaysClose;
    std::vector<Plan> plans;
    for (const Plan& plan : PossiblePlans(w)) {
      if (MultiplyAdds(plan, w) < close) plans.push_back(plan);
    }
    std::vector<double> best(plans.size(), 1);
    for (const Plan& plan : plans) trial.Prepare(plan);
    const auto begin = std::chrono::steady_clock::now();
    for (int round = 0; round <= kRounds || SecondsSince(begin) < kSeconds; ++round) {  // round 0 warms up memory
      for (size_t p = 0; p < plans.size(); ++p) {
        const auto start = std::chrono::steady_clock::now();
        trial.Run(plans[p]);
        if (round > 0) best[p] = std::min(best[p], SecondsSince(start));
      }
    }
    for (size_t p = 0; p < plans.size(); ++p) {
      rows.push_back(PlanTerms<T>(plans[p], w));
      seconds.push_back(best[p]);
    }
  }
  return {FitPrices(rows, seconds), simd::MeasureRates().bytes, kCachedBytes, sizeof(T)};
}

template <typename T>
double PredictSeconds(const Plan& plan, const Workload& workload, const Costs& costs) {
  const Terms terms = PlanTerms<T>(plan, workload);
  double sum = 0;
  for (size_t i = 0; i < kTerms; ++i) sum += terms[i] * costs.seconds[i];
  const double bytes = Bytes(plan, workload, costs.element);
  return bytes > costs.cached_bytes ? std::max(sum, (bytes - costs.cached_bytes) / costs.memory) : sum;
}

std::vector<Plan> PossiblePlans(const Workload& w) {
  std::vector<Plan> plans;
  for (const Order scores : kOrders) {
    if (!CanScore(scores, w)) continue;
    for (const Order outputs : kOrders) {
      if (w.read == Read::kScores ? outputs == Order::kProjected : CanSum(outputs, w))
        plans.push_back({scores, outputs});
    }
  }
  return plans;
}

template <typename T>
Plan FastestPlan(const Workload& workload, const Costs& costs) {
  Plan best;
  double least = std::numeric_limits<double>::infinity();
  for (const Plan& plan : PossiblePlans(workload)) {
    const double seconds = PredictSeconds<T>(plan, workload, costs);
    if (seconds < least) best = plan, least = seconds;
  }
  return best;
}

Workload RandomWorkload(Rng& rng, double most_multiply_adds) {
  constexpr int64_t kHeads[] = {1, 1, 2, 4, 8, 12};
  Workload w;
  do {
    w = {};
    w.width = LogUniform(rng, 32, 1024), w.keys = LogUniform(rng, 8, 1024);
    const double rows = rng.Uniform();
    w.queries = rows < 0.4 ? w.keys : rows < 0.6 ? 1 : LogUniform(rng, 1, static_cast<double>(w.keys));
    w.heads = kHeads[rng.Next() % std::size(kHeads)];
    const double share = static_cast<double>(w.width) / static_cast<double>(w.heads);
    w.head_width = std::max<int64_t>(8, LogUniform(rng, share / (w.heads == 1 ? 4 : 2), 2 * share));
    w.batch = rng.Uniform() < 0.3 ? 4 : 1;
    w.read = rng.Uniform() < 0.4 ? Read::kScores : Read::kOutputs;
    if (rng.Uniform() < 0.1) w.cached = Cached::kLatent, w.latent = std::max<int64_t>(16, w.width / 4);
  } while (MultiplyAdds(CheapestPlan(w), w) > most_multiply_adds);
  return w;
}

template Terms PlanTerms<float>(const Plan&, const Workload&);
template Terms PlanTerms<double>(const Plan&, const Workload&);
template Costs MeasureCosts<float>();
template Costs MeasureCosts<double>();
template double PredictSeconds<float>(const Plan&, const Workload&, const Costs&);
template double PredictSeconds<double>(const Plan&, const Workload&, const Costs&);
template Plan FastestPlan<float>(const Workload&, const Costs&);
template Plan FastestPlan<double>(const Workload&, const Costs&);

}  // namespace qkv::lab
