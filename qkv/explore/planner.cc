#include "qkv/explore/planner.h"

#include <cmath>
#include <string>
#include <vector>

#include "qkv/attention/plan.h"
#include "qkv/explore/fields.h"
#include "qkv/model/blocks/attention_orders.h"
#include "qkv/model/config/description.h"
#include "qkv/model/config/separation.h"

namespace qkv::explore {
namespace {

using attention::Order;
using attention::Plan;
using attention::Workload;

// The map: tokens by width down, width of a head by width across.
constexpr int64_t kRows = 41, kColumns = 48;
constexpr double kLeastTokens = 1.0 / 32, kMostTokens = 32, kWidest = 1.5;
constexpr double kMapWidth = 16384;  // so large a D that N and E rounded to integers hardly differ

io::Json RowOf(const Workload& w, Order order, const Plan& cheapest) {
  const Plan plan{order, order};
  io::Json steps = io::Json::array();
  for (const attention::Step& step : PlanSteps(plan, w)) {
    steps.push_back({{"what", step.what}, {"multiply_adds", step.multiply_adds()}});
  }
  return {{"order", Name(order)},    {"multiply_adds", MultiplyAdds(plan, w)},
          {"bytes", Bytes(plan, w)}, {"beforehand", MultiplyAddsBeforehand(plan, w)},
          {"steps", steps},          {"cheapest", plan == cheapest}};
}

// Multiply-adds of the merged order relative to the projected one, below 1 where merging pays: [rows, columns].
Tensor<float> MergingRatios(Tensor<float>& tokens, Tensor<float>& heads) {
  Tensor<float> ratios({kRows, kColumns});
  for (int64_t row = 0; row < kRows; ++row) {
    const double share = static_cast<double>(row) / static_cast<double>(kRows - 1);
    const double by_width = kLeastTokens * std::pow(kMostTokens / kLeastTokens, share);
    tokens[row] = static_cast<float>(by_width);
    for (int64_t column = 0; column < kColumns; ++column) {
      const double head = kWidest * static_cast<double>(column + 1) / static_cast<double>(kColumns);
      heads[column] = static_cast<float>(head);
      const auto whole = [](double part) { return std::max<int64_t>(1, std::llround(part * kMapWidth)); };
      const Workload w{.queries = whole(by_width),
                       .keys = whole(by_width),
                       .width = static_cast<int64_t>(kMapWidth),
                       .head_width = whole(head)};
      ratios[row * kColumns + column] = static_cast<float>(MultiplyAdds(Plan{Order::kMerged, Order::kMerged}, w) /
                                                           MultiplyAdds(Plan{Order::kProjected, Order::kProjected}, w));
    }
  }
  return ratios;
}

}  // namespace

Packet AnswerPlan(ExploredModel& model, const io::Json& request) {
  model.config();  // throws for a text model
  const model::VitConfig& c = model.loaded()->facts().config;
  const std::string none = model::PairObstruction(c.block.attention.kind);
  Require(none.empty(), "plan: there is nothing to order in {}: {}", c.architecture, none);
  Workload w = model::PossibleOrders(c, {}, 0, c.tokens()).workload;
  const auto queries = request.find("queries");
  const bool all = queries == request.end() || queries->is_null() || *queries == "all";
  w.queries = all ? w.keys : IntegerField(request, "queries", 1, w.keys);
  std::vector<Order> possible;
  for (const Order order : attention::kOrders) {
    if (CanScore(order, w) && CanSum(order, w)) possible.push_back(order);
  }
  const Plan cheapest = CheapestPlan(w, possible);
  Packet answer;
  for (const Order order : possible) answer.json["rows"].push_back(RowOf(w, order, cheapest));
  const auto N = static_cast<double>(w.keys), D = static_cast<double>(w.width), E = static_cast<double>(w.head_width);
  const double absorbing = attention::AbsorbingPaysBelow(N, D, E);
  answer.json["workload"] = {{"queries", w.queries},       {"tokens", w.keys},           {"width", w.width},
                             {"heads", w.heads},           {"head_width", w.head_width}, {"depth", c.depth},
                             {"linear", w.keys_are_linear}};
  answer.json["cheapest"] = {{"scores", Name(cheapest.scores)}, {"outputs", Name(cheapest.outputs)}};
  answer.json["merging_pays_above"] = attention::MergingPaysAbove(N, D);  // E/D
  answer.json["head_share"] = E / D;
  answer.json["absorbing_pays_below"] = std::isfinite(absorbing) ? io::Json(absorbing) : io::Json();  // rows
  Tensor<float> tokens({kRows}), heads({kColumns});
  answer.arrays["ratio"] = MakeArray(MergingRatios(tokens, heads));
  answer.arrays["tokens_by_width"] = MakeArray(tokens), answer.arrays["head_by_width"] = MakeArray(heads);
  return answer;
}

}  // namespace qkv::explore
