#include "qkv/lab/plan_shapes.h"

#include <fmt/format.h>

#include <utility>

#include "qkv/core/error.h"
#include "qkv/report/text.h"

namespace qkv::lab {
namespace {

using attention::Order;
using attention::Plan;
using attention::Read;
using attention::Workload;

bool ReadsScores(const Workload& w) { return w.read == Read::kScores; }

// A ratio with enough digits to tell 0.94 from 1.
std::string TimesText(double ratio) { return report::Number(ratio, ratio < 10 ? 3 : 2); }

}  // namespace

Workload Complete(Workload w) {
  if (w.keys == 0) w.keys = 197;
  if (w.queries == 0) w.queries = w.keys;
  if (w.head_width == 0) {
    Require(w.heads > 0 && w.width % w.heads == 0,
            "plan: {} features do not divide into {} heads; give the width of a head", w.width, w.heads);
    w.head_width = w.width / w.heads;
  }
  return w;
}

template <typename T>
ShapePlans ListPlans(const Workload& w, const Costs* costs) {
  ShapePlans plans{.workload = w, .rows = {}, .cheapest = CheapestPlan(w), .fastest = {}};
  if (costs) plans.fastest = FastestPlan<T>(w, *costs);
  for (const Plan& plan : PossiblePlans(w)) {
    if (!ReadsScores(w) && plan.scores != plan.outputs && plan != plans.cheapest && plan != plans.fastest) continue;
    PlanRow row{.plan = plan,
                .multiply_adds = MultiplyAdds(plan, w),
                .beforehand = MultiplyAddsBeforehand(plan, w),
                .bytes = Bytes(plan, w, sizeof(T)),
                .predicted = {},
                .measured = {}};
    if (costs) row.predicted = PredictSeconds<T>(plan, w, *costs);
    plans.rows.push_back(row);
  }
  return plans;
}

report::Table ToTable(const ShapePlans& plans) {
  const bool predicted = plans.rows.front().predicted.has_value(), measured = plans.rows.front().measured.has_value();
  report::Table table;
  table.columns = {{"order", report::Align::kLeft}, {"multiply-adds"}, {"beforehand"}, {"MB"}};
  if (predicted) table.columns.push_back({"predicted"});
  if (measured) table.columns.push_back({"measured"});
  for (const PlanRow& row : plans.rows) {
    table.rows.push_back({PlanName(row.plan, plans.workload), ShortCount(row.multiply_adds),
                          row.beforehand > 0 ? ShortCount(row.beforehand) : "", report::Number(row.bytes / 1e6)});
    if (predicted) table.rows.back().push_back(report::Seconds(*row.predicted));
    if (measured) table.rows.back().push_back(report::Seconds(*row.measured));
  }
  return table;
}

io::Json ToJson(const ShapePlans& plans) {
  const Workload& w = plans.workload;
  io::Json json = {
      {"queries", w.queries}, {"tokens", w.keys},           {"width", w.width},
      {"heads", w.heads},     {"head_width", w.head_width}, {"value_width", w.values()},
      {"batch", w.batch},     {"latent", w.latent},         {"read", ReadsScores(w) ? "scores" : "outputs"}};
  for (const PlanRow& row : plans.rows) {
    io::Json one = {{"scores", Name(row.plan.scores)},
                    {"multiply_adds", row.multiply_adds},
                    {"multiply_adds_beforehand", row.beforehand},
                    {"bytes", row.bytes}};
    if (!ReadsScores(w)) one["outputs"] = Name(row.plan.outputs);
    if (row.predicted) one["predicted_ms"] = 1e3 * *row.predicted;
    if (row.measured) one["measured_ms"] = 1e3 * *row.measured;
    json["orders"].push_back(one);
  }
  json["cheapest"] = PlanName(plans.cheapest, w);
  if (plans.fastest) json["fastest"] = PlanName(*plans.fastest, w);
  json["merging"] = MergingVerdict(w);
  json["absorbing"] = AbsorbingVerdict(w);
  return json;
}

std::string PlanName(const Plan& plan, const Workload& w) {
  if (ReadsScores(w) || plan.scores == plan.outputs) return std::string(Name(plan.scores));
  return fmt::format("{}, {}", Name(plan.scores), Name(plan.outputs));
}

std::string MergingVerdict(const Workload& w, std::span<const Order> unmerged) {
  const Plan merged{Order::kMerged, ReadsScores(w) || !w.projection ? Order::kProjected : Order::kMerged};
  if (w.cached == attention::Cached::kKeysAndValues) {
    return "Nothing can be merged or absorbed: keys and values are cached, the tokens are not.";
  }
  if (!w.keys_are_linear) {
    return "Merging does not apply: norms stand between W_Q, W_K and their product.";
  }
  const Plan other = CheapestPlan(w, unmerged);
  const double with = MultiplyAdds(merged, w), without = MultiplyAdds(other, w);
  const double share = static_cast<double>(w.head_width) / static_cast<double>(w.width);
  std::string why;
  if (w.queries == w.keys && w.source() == w.width) {
    const double border = attention::MergingPaysAbove(static_cast<double>(w.keys), static_cast<double>(w.width));
    why = fmt::format("; E/D = {} is {} (D + N)/(2D + N) = {}", report::Number(share),
                      share > border ? "above" : "not above", report::Number(border));
  } else if (other == Plan{Order::kAbsorbed, ReadsScores(w) ? Order::kProjected : Order::kAbsorbed}) {
    // m·D·S < m·D·E + m·E·S ⇔ E > D·S/(D + S), where S is the width of what is cached; D/2 if S = D.
    const auto D = static_cast<double>(w.width), S = static_cast<double>(w.source());
    why = fmt::format("; beside absorbing it pays where E is above {}", report::Number(D * S / (D + S)));
  }
  if (with < without) {
    return fmt::format(
        "Merging pays: {} multiply-adds instead of {} ({}), {} times fewer, once the merged matrices "
        "are made ({}){}.",
        ShortCount(with), ShortCount(without), PlanName(other, w), TimesText(without / with),
        ShortCount(MultiplyAddsBeforehand(merged, w)), why);
  }
  return fmt::format("Merging does not pay: {} multiply-adds instead of {} ({}), {} times as many{}.", ShortCount(with),
                     ShortCount(without), PlanName(other, w), TimesText(with / without), why);
}

std::string AbsorbingVerdict(const Workload& w) {
  if (!w.keys_are_linear || w.cached == attention::Cached::kKeysAndValues || w.values() != w.head_width) return "";
  const double below = attention::AbsorbingPaysBelow(static_cast<double>(w.keys), static_cast<double>(w.source()),
                                                     static_cast<double>(w.head_width));
  if (below > static_cast<double>(w.keys)) return "";
  return fmt::format("Absorbing pays below {} rows; {} {} read.", report::Number(below), w.queries,
                     w.queries == 1 ? "is" : "are");
}

std::string ShortCount(double count) {
  static constexpr std::pair<double, const char*> kUnits[] = {{1e12, " T"}, {1e9, " G"}, {1e6, " M"}, {1e3, " k"}};
  for (const auto& [unit, name] : kUnits) {
    if (count >= unit) return report::Number(count / unit) + name;
  }
  return report::Number(count);
}

template ShapePlans ListPlans<float>(const Workload&, const Costs*);
template ShapePlans ListPlans<double>(const Workload&, const Costs*);

}  // namespace qkv::lab
