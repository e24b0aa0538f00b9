// The steps of each order, their costs, and the choice of the cheapest plan. Formulas: docs/algebra.md.
#include "qkv/attention/plan.h"

#include <algorithm>
#include <limits>

#include "qkv/core/error.h"

namespace qkv::attention {
namespace {

using Kind = Step::Kind;

// The sizes of a workload, by their short names.
struct Shapes {
  explicit Shapes(const Workload& w)
      : B(w.batch),
        m(w.queries),
        N(w.keys),
        made(w.cached == Cached::kKeysAndValues ? w.queries : w.keys),
        D(w.width),
        S(w.source()),
        H(w.heads) {}
  int64_t B, m, N, made, D, S, H;  // made: tokens whose keys and values are not cached. S: width of the keys' source
};

class Builder {
 public:
  // Adds `count` products of rows by weights; the columns are written as those of `heads` heads.
  void Weights(std::string_view what, int64_t count, int64_t rows, int64_t inner, int64_t columns, int64_t heads = 1) {
    const double n = static_cast<double>(count), r = static_cast<double>(rows), k = static_cast<double>(inner),
                 c = static_cast<double>(columns);
    Add({Kind::kWeights, what, count, rows, inner, columns, 0, n * (r * k + k * c + r * c), heads});
  }
  void Add(const Step& step) { steps_.at[static_cast<size_t>(steps_.count++)] = step; }
  const Steps& steps() const { return steps_; }

 private:
  Steps steps_;
};

bool ByKeys(Order order) { return order == Order::kKeysAbsorbed || order == Order::kKeysMerged; }
// True if all heads attend to the tokens themselves.
bool Shared(Order order) { return order == Order::kAbsorbed || order == Order::kMerged; }

// Adds the products of queries and keys; returns their common width.
int64_t AddScores(Order order, const Workload& w, Builder& steps) {
  const Shapes s(w);
  const int64_t E = w.head_width;
  if (order == Order::kProjected || order == Order::kAbsorbed) {
    steps.Weights("Q = X_q W_Q^T", 1, s.B * s.m, s.D, s.H * E, s.H);
  }
  switch (order) {
    case Order::kProjected:
      steps.Weights("K = X W_K^T", 1, s.B * s.made, s.S, s.H * E, s.H);
      return E;
    case Order::kAbsorbed:
      steps.Weights("Q W_K", s.H, s.B * s.m, E, s.S);
      return s.S;
    case Order::kMerged:
      steps.Weights("X_q M", 1, s.B * s.m, s.D, s.H * s.S);
      return s.S;
    case Order::kKeysAbsorbed:
      steps.Weights("K = X W_K^T", 1, s.B * s.made, s.S, s.H * E, s.H);
      steps.Weights("K W_Q", s.H, s.B * s.N, E, s.D);
      return s.D;
    case Order::kKeysMerged:
      steps.Weights("X M^T", 1, s.B * s.N, s.S, s.H * s.D, s.H);
      return s.D;
  }
  Fail("plan: unknown order {}", static_cast<int>(order));
}

// Adds the products of values; returns their width.
int64_t AddValues(Order order, const Workload& w, Builder& steps) {
  const Shapes s(w);
  const int64_t E = w.values();
  switch (order) {
    case Order::kProjected:
      steps.Weights("V = X W_V^T", 1, s.B * s.made, s.S, s.H * E, s.H);
      return E;
    case Order::kAbsorbed:
    case Order::kMerged:
      return s.S;
    case Order::kKeysAbsorbed:
      steps.Weights("V = X W_V^T", 1, s.B * s.made, s.S, s.H * E, s.H);
      steps.Weights("V W_O^T", s.H, s.B * s.N, E, s.D);
      return s.D;
    case Order::kKeysMerged:
      steps.Weights("X M_OV^T", 1, s.B * s.N, s.S, s.H * s.D, s.H);
      return s.D;
  }
  Fail("plan: unknown order {}", static_cast<int>(order));
}

// Adds the products after the weighted sums.
void AddOutputs(Order order, const Workload& w, Builder& steps) {
  const Shapes s(w);
  const int64_t E = w.values(), rows = s.B * s.m;
  if (order == Order::kAbsorbed) steps.Weights("(A X) W_V^T", s.H, rows, s.S, E);
  if (order == Order::kMerged) steps.Weights("(A X) M_OV^T", 1, rows, s.H * s.S, s.D);
  if (w.projection && !Shared(order) && !ByKeys(order)) steps.Weights("(A V) W_O^T", 1, rows, s.H * E, s.D);
  if (w.projection && order == Order::kAbsorbed) steps.Weights("(A X W_V^T) W_O^T", 1, rows, s.H * E, s.D);
  if (ByKeys(order) && s.H > 1) {
    const double elements = static_cast<double>(rows) * static_cast<double>(s.D) * static_cast<double>(s.H + 1);
    steps.Add({Kind::kHeads, "sum of heads", 1, rows, s.H, s.D, 0, elements});
  }
}

void Check(const Plan& plan, const Workload& w) {
  Require(w.queries > 0 && w.keys > 0 && w.width > 0 && w.heads > 0 && w.head_width > 0 && w.batch > 0,
          "plan: expected sizes of at least 1, got {} queries, {} keys, width {}, {} heads of {}, batch {}", w.queries,
          w.keys, w.width, w.heads, w.head_width, w.batch);
  Require(w.cached != Cached::kLatent || w.latent > 0, "plan: expected the width of a cached latent, got {}", w.latent);
  Require(w.cached == Cached::kTokens || w.queries <= w.keys,
          "plan: the queries' own tokens are among those cached, got {} queries and {} keys", w.queries, w.keys);
  Require(CanScore(plan.scores, w), "plan: scores cannot be {} here", Name(plan.scores));
  Require(w.read == Read::kScores || CanSum(plan.outputs, w), "plan: outputs cannot be {} here", Name(plan.outputs));
}

// Multiply-adds of one chain, per head and sequence, in closed form: m rows of width D on one side, N of the source's
// width S on the other, E in between.
double ChainMultiplyAdds(Order order, const Workload& w, int64_t head_width, bool last_factor) {
  const Shapes s(w);
  const auto m = static_cast<double>(s.m), N = static_cast<double>(s.N), made = static_cast<double>(s.made),
             D = static_cast<double>(s.D), S = static_cast<double>(s.S), E = static_cast<double>(head_width);
  const double row_side = last_factor ? m * D * E : 0;  // by W_Q or W_O
  switch (order) {
    case Order::kProjected:
      return row_side + made * S * E + m * N * E;
    case Order::kAbsorbed:
      return row_side + m * E * S + m * N * S;
    case Order::kMerged:
      return m * D * S + m * N * S;
    case Order::kKeysAbsorbed:
      return N * S * E + N * E * D + m * N * D;
    case Order::kKeysMerged:
      return N * S * D + m * N * D;
  }
  Fail("plan: unknown order {}", static_cast<int>(order));
}

}  // namespace

std::string_view Name(Order order) {
  switch (order) {
    case Order::kProjected:
      return "projected";
    case Order::kAbsorbed:
      return "absorbed";
    case Order::kMerged:
      return "merged";
    case Order::kKeysAbsorbed:
      return "keys-absorbed";
    case Order::kKeysMerged:
      return "keys-merged";
  }
  Fail("plan: unknown order {}", static_cast<int>(order));
}

bool CanScore(Order order, const Workload& w) {
  return order == Order::kProjected || (w.keys_are_linear && w.cached != Cached::kKeysAndValues);
}

bool CanSum(Order order, const Workload& w) {
  if (order == Order::kProjected) return true;
  return w.cached != Cached::kKeysAndValues && (order == Order::kAbsorbed || w.projection);
}

double Step::multiply_adds() const {
  if (kind == Kind::kHeads) return 0;
  return static_cast<double>(count) * static_cast<double>(rows) * static_cast<double>(columns) *
         static_cast<double>(inner + values);
}

Steps PlanSteps(const Plan& plan, const Workload& w) {
  Check(plan, w);
  const Shapes s(w);
  Builder steps;
  if (w.cached == Cached::kLatent) steps.Weights("C = X_q W_C^T", 1, s.B * s.m, s.D, s.S);
  const bool scores_only = w.read == Read::kScores;
  const int64_t inner = AddScores(plan.scores, w, steps);
  const int64_t values = scores_only ? 0 : AddValues(plan.outputs, w, steps);

  // Heads that attend to the same tokens count as one head with more queries.
  const bool one_head = Shared(plan.scores) && (scores_only || Shared(plan.outputs));
  Step step{scores_only ? Kind::kProduct : Kind::kAttention, scores_only ? "scores" : "attention"};
  step.count = one_head ? s.B : s.B * s.H, step.rows = one_head ? s.H * s.m : s.m;
  step.inner = inner, step.columns = s.N, step.values = values;
  const int64_t query_heads = ByKeys(plan.scores) ? 1 : s.H, key_heads = Shared(plan.scores) ? 1 : s.H,
                value_heads = Shared(plan.outputs) ? 1 : s.H;
  const auto elements = [&](int64_t heads, int64_t rows, int64_t columns) {  // in double: int64_t would overflow
    return static_cast<double>(s.B * heads) * static_cast<double>(rows) * static_cast<double>(columns);
  };
  step.elements = elements(query_heads, s.m, inner) + elements(key_heads, s.N, inner) +
                  elements(value_heads, s.N, values) + elements(s.H, s.m, scores_only ? s.N : values);
  steps.Add(step);
  if (!scores_only) AddOutputs(plan.outputs, w, steps);
  return steps.steps();
}

double MultiplyAdds(const Plan& plan, const Workload& w) {
  const auto heads = static_cast<double>(w.batch * w.heads);
  double sum = heads * ChainMultiplyAdds(plan.scores, w, w.head_width, true);
  if (w.read == Read::kOutputs) sum += heads * ChainMultiplyAdds(plan.outputs, w, w.values(), w.projection);
  if (w.cached == Cached::kLatent)
    sum += static_cast<double>(w.batch * w.queries) * static_cast<double>(w.width * w.latent);
  return sum;
}

double Bytes(const Plan& plan, const Workload& workload, int element) {
  double elements = 0;
  for (const Step& step : PlanSteps(plan, workload)) elements += step.elements;
  return elements * element;
}

double MultiplyAddsBeforehand(const Plan& plan, const Workload& w) {
  const auto merged = [](Order order) { return order == Order::kMerged || order == Order::kKeysMerged; };
  const double matrix = static_cast<double>(w.heads * w.width) * static_cast<double>(w.source());
  double sum = 0;
  if (merged(plan.scores)) sum += matrix * static_cast<double>(w.head_width);
  if (w.read == Read::kOutputs && merged(plan.outputs)) sum += matrix * static_cast<double>(w.values());
  return sum;
}

Plan CheapestPlan(const Workload& w, std::span<const Order> among) {
  const auto cheapest = [&](bool (*can)(Order, const Workload&), int64_t head_width, bool last_factor) {
    Order best = Order::kProjected;
    double least = std::numeric_limits<double>::infinity();
    for (const Order order : kOrders) {
      if (std::find(among.begin(), among.end(), order) == among.end() || !can(order, w)) continue;
      const double cost = ChainMultiplyAdds(order, w, head_width, last_factor);
      if (cost < least) best = order, least = cost;
    }
    return best;
  };
  Plan plan{cheapest(CanScore, w.head_width, true), Order::kProjected};
  if (w.read == Read::kOutputs) plan.outputs = cheapest(CanSum, w.values(), w.projection);
  return plan;
}

double MergingPaysAbove(double tokens, double width) { return (width + tokens) / (2 * width + tokens); }

double AbsorbingPaysBelow(double tokens, double width, double head_width) {
  const double left = width * head_width + tokens * (width - head_width);
  return left > 0 ? tokens * width * head_width / left : std::numeric_limits<double>::infinity();
}

}  // namespace qkv::attention
