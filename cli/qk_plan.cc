// qkv qk plan: the cheapest exact order of attention's products, for given shapes or each block of a model.
#include "cli/qk_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "cli/bench.h"
#include "cli/output.h"
#include "qkv/core/file.h"
#include "qkv/core/parallel.h"
#include "qkv/lab/plan_map.h"
#include "qkv/lab/plan_timing.h"
#include "qkv/lab/plan_trial.h"
#include "qkv/model/blocks/attention_orders.h"
#include "qkv/model/config/separation.h"
#include "qkv/report/table.h"
#include "qkv/report/text.h"
#include "qkv/simd/isa.h"

namespace qkv::cli {
namespace {

using attention::Order;
using attention::Plan;
using attention::Read;
using attention::Workload;

bool ReadsScores(const Workload& w) { return w.read == Read::kScores; }

// "merged", or "merged, projected" if the two chains differ.
std::string PlanName(const Plan& plan, const Workload& w) {
  if (ReadsScores(w) || plan.scores == plan.outputs) return std::string(Name(plan.scores));
  return fmt::format("{}, {}", Name(plan.scores), Name(plan.outputs));
}

// A ratio with enough digits to tell 0.94 from 1.
std::string TimesText(double ratio) { return report::Number(ratio, ratio < 10 ? 3 : 2); }

constexpr std::array kUnmerged = {Order::kProjected, Order::kAbsorbed, Order::kKeysAbsorbed};

// Whether merging pays against the best of these orders, and why, in numbers.
std::string Verdict(const Workload& w, std::span<const Order> unmerged = kUnmerged) {
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

// Whether there are few enough rows for absorbing, if that is possible at all.
std::string AbsorbingVerdict(const Workload& w) {
  if (!w.keys_are_linear || w.cached == attention::Cached::kKeysAndValues || w.values() != w.head_width) return "";
  const double below = attention::AbsorbingPaysBelow(static_cast<double>(w.keys), static_cast<double>(w.source()),
                                                     static_cast<double>(w.head_width));
  if (below > static_cast<double>(w.keys)) return "";
  return fmt::format("Absorbing pays below {} rows; {} {} read.", report::Number(below), w.queries,
                     w.queries == 1 ? "is" : "are");
}

struct Row {
  Plan plan;
  double predicted = 0;
  std::optional<double> measured;  // seconds, best of all runs
};

// The orders to list: one order for both chains, and any other that is chosen.
std::vector<Row> MakeRows(const Workload& w, const Plan& cheapest, const Plan& fastest) {
  std::vector<Row> rows;
  for (const Plan& plan : lab::PossiblePlans(w)) {
    if (ReadsScores(w) || plan.scores == plan.outputs || plan == cheapest || plan == fastest) rows.push_back({plan});
  }
  return rows;
}

template <typename T>
void Measure(const Workload& w, double seconds, std::vector<Row>& rows) {
  lab::Trial<T> trial(w);
  for (const Row& row : rows) trial.Prepare(row.plan);
  const std::vector<Times> times = Interleave(rows.size(), seconds, [&](size_t i) { trial.Run(rows[i].plan); });
  for (size_t i = 0; i < rows.size(); ++i) rows[i].measured = times[i].best() / 1e3;
}

std::string DescribeWorkload(const QkPlanOptions& options) {
  const Workload& w = options.workload;
  std::string text = fmt::format("{} of {} tokens read, width {}, {} head{} of {}", w.queries, w.keys, w.width, w.heads,
                                 w.heads == 1 ? "" : "s", w.head_width);
  if (w.values() != w.head_width) text += fmt::format(" (values of {})", w.values());
  if (w.batch > 1) text += fmt::format(", batch {}", w.batch);
  if (w.cached == attention::Cached::kLatent) text += fmt::format(", latents of {} cached", w.latent);
  if (w.cached == attention::Cached::kKeysAndValues) text += ", keys and values cached";
  return text + fmt::format(", {} wanted; {}, {} thread{}, {} kernels", options.read, options.dtype, NumThreads(),
                            NumThreads() == 1 ? "" : "s", simd::Name(simd::ActiveIsa()));
}

io::Json WorkloadJson(const QkPlanOptions& options) {
  const Workload& w = options.workload;
  return {{"queries", w.queries}, {"tokens", w.keys},           {"width", w.width},
          {"heads", w.heads},     {"head_width", w.head_width}, {"value_width", w.values()},
          {"batch", w.batch},     {"cached", options.cached},   {"latent", w.latent},
          {"read", options.read}, {"dtype", options.dtype}};
}

template <typename T>
int PlanShapes(const QkPlanOptions& options) {
  const Workload& w = options.workload;
  const lab::Costs costs = lab::MeasureCosts<T>();
  const Plan cheapest = CheapestPlan(w), fastest = lab::FastestPlan<T>(w, costs);
  std::vector<Row> rows = MakeRows(w, cheapest, fastest);
  for (Row& row : rows) row.predicted = lab::PredictSeconds<T>(row.plan, w, costs);
  if (options.measure) Measure<T>(w, options.seconds, rows);
  const auto best =
      std::min_element(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.measured < b.measured; });
  const Plan chosen = options.measure ? best->plan : fastest;

  if (options.json) {
    io::Json json = WorkloadJson(options);
    for (const Row& row : rows) {
      io::Json one = {{"scores", Name(row.plan.scores)},
                      {"multiply_adds", MultiplyAdds(row.plan, w)},
                      {"multiply_adds_beforehand", MultiplyAddsBeforehand(row.plan, w)},
                      {"bytes", Bytes(row.plan, w, costs.element)},
                      {"predicted_ms", 1e3 * row.predicted}};
      if (!ReadsScores(w)) one["outputs"] = Name(row.plan.outputs);
      if (row.measured) one["measured_ms"] = 1e3 * *row.measured;
      json["orders"].push_back(one);
    }
    json["cheapest"] = PlanName(cheapest, w);
    json["fastest"] = PlanName(chosen, w);
    json["merging"] = Verdict(w);
    PrintJsonLine(json);
    return 0;
  }
  report::Table table;
  table.columns = {{"order", report::Align::kLeft}, {"multiply-adds"}, {"beforehand"}, {"MB"}, {"predicted"}};
  if (options.measure) table.columns.push_back({"measured"});
  for (const Row& row : rows) {
    const double beforehand = MultiplyAddsBeforehand(row.plan, w);
    table.rows.push_back({PlanName(row.plan, w), ShortCount(MultiplyAdds(row.plan, w)),
                          beforehand > 0 ? ShortCount(beforehand) : "",
                          report::Number(Bytes(row.plan, w, costs.element) / 1e6), report::Seconds(row.predicted)});
    if (row.measured) table.rows.back().push_back(report::Seconds(*row.measured));
  }
  Print("{}\n\n", DescribeWorkload(options));
  PrintRaw(ToText(table) + '\n' + Verdict(w) + '\n');
  if (const std::string absorbing = AbsorbingVerdict(w); !absorbing.empty()) Print("{}\n", absorbing);
  Print("Fewest multiply-adds: {}. Fastest here, {}: {}.\n", PlanName(cheapest, w),
        options.measure ? "measured" : "predicted", PlanName(chosen, w));
  return 0;
}

// Whether merging the scores of a model's block pays, against the orders that inference has; sums are never merged.
std::string MergingVerdict(const model::AttentionOrders& orders) {
  if (orders.kind == nn::AttentionKind::kMerged) return "Queries and keys are merged in the checkpoint.";
  std::vector<Order> unmerged = orders.scores;
  if (orders.workload.keys_are_linear && std::erase(unmerged, Order::kMerged) == 0) {
    return fmt::format("Merging does not apply: separate and low_rank attention is merged, {} is not.",
                       model::Name(orders.kind));
  }
  Workload scores = orders.workload;
  scores.read = Read::kScores;
  return Verdict(scores, unmerged);
}

// Throws Error if a model's attention leaves nothing to plan.
void RequireChoice(const model::VitConfig& c) {
  const std::string none = model::PairObstruction(c.block.attention.kind);
  Require(none.empty(), "qk plan: nothing to plan, the model's attention is {}: {}",
          model::Name(c.block.attention.kind), none);
  const auto outputs = model::PossibleOrders(c, {}, c.depth - 1, c.tokens()).outputs;
  Require(c.block.attention.kind != nn::AttentionKind::kMerged || outputs.size() > 1,
          "qk plan: nothing to plan, the model's attention is {} already, and all rows are read",
          model::Name(c.block.attention.kind));
}

// Prints the orders that inference uses, and their savings.
int PlanModel(const QkPlanOptions& options) {
  const app::AnyModel model = OpenModel(options.model);
  model.Require("qk plan", app::kReplaceMatrices);
  const model::VitConfig c = model::InputConfig(model.images().description);
  RequireChoice(c);
  const int64_t tokens = model.facts().config.tokens();
  const auto orders_of = [&](int64_t block, int64_t looked_at) {
    model::AttentionOrders orders = model::PossibleOrders(c, {}, block, looked_at);
    orders.workload.batch = options.workload.batch;
    return orders;
  };
  report::Table table;
  table.columns = {{"blocks", report::Align::kLeft},
                   {"rows read"},
                   {"order", report::Align::kLeft},
                   {"multiply-adds"},
                   {"projected"},
                   {"of all rows"},
                   {"saved"}};
  // For comparison, the order of the formulas, in which the original libraries compute.
  const Plan plain{c.block.attention.kind == nn::AttentionKind::kMerged ? Order::kMerged : Order::kProjected,
                   Order::kProjected};
  double all = 0, left = 0;
  std::string verdicts;
  for (int64_t begin = 0, end; begin < c.depth; begin = end) {
    const model::AttentionOrders orders = orders_of(begin, tokens);
    const Workload& w = orders.workload;
    for (end = begin + 1; end < c.depth && orders_of(end, tokens).workload.queries == w.queries;) ++end;
    model::AttentionOrders whole = orders;
    whole.workload.queries = w.keys;
    const Plan plan = ChoosePlan(orders);
    const double chosen = MultiplyAdds(plan, orders), projected = MultiplyAdds(plain, orders),
                 of_all = MultiplyAdds(plain, whole);
    const auto blocks = static_cast<double>(end - begin);
    all += blocks * of_all, left += blocks * chosen;
    const std::string name = end == begin + 1 ? fmt::format("{}", begin) : fmt::format("{}-{}", begin, end - 1),
                      verdict = MergingVerdict(orders_of(begin, c.tokens()));  // decided for the trained size
    if (options.json) {
      PrintJsonLine(io::Json{{"first_block", begin},
                             {"last_block", end - 1},
                             {"rows", w.queries},
                             {"tokens", w.keys},
                             {"scores", Name(plan.scores)},
                             {"outputs", Name(plan.outputs)},
                             {"multiply_adds", chosen},
                             {"projected", projected},
                             {"projected_all_rows", of_all},
                             {"saved", 1 - chosen / of_all},
                             {"merging", verdict}});
    }
    table.rows.push_back({name, fmt::format("{} of {}", w.queries, w.keys), PlanName(plan, w), ShortCount(chosen),
                          ShortCount(projected), ShortCount(of_all),
                          fmt::format("{:.1f} %", 100 * (1 - chosen / of_all))});
    verdicts += fmt::format("{} {}, scores: {}\n", end == begin + 1 ? "Block" : "Blocks", name, verdict);
  }
  if (options.json) return 0;
  const std::string queries = c.block.attention.query_width() == c.block.attention.head_width
                                  ? ""
                                  : fmt::format(" (queries of {})", c.block.attention.query_width());
  Print(
      "{} ({}), {} attention, {} tokens, width {}, {} heads of {}{}; multiply-adds of one block's attention, batch {}"
      "\n\n{}\n{}All blocks: {} multiply-adds instead of {}, {:.2f} % saved.\n",
      options.model.path.empty() ? "built-in digit classifier" : options.model.path, c.architecture,
      model::Name(c.block.attention.kind), tokens, c.block.width, c.block.attention.heads, c.block.attention.head_width,
      queries, options.workload.batch, EscapedText{ToText(table)}, EscapedText{verdicts}, ShortCount(left),
      ShortCount(all), 100 * (1 - left / all));
  return 0;
}

// Reads the name of an order on each line of stdin, runs it once and prints its milliseconds on a line, so that a
// script can interleave it with other programs.
template <typename T>
int RunFromStdin(const QkPlanOptions& options) {
  lab::Trial<T> trial(options.workload);
  for (std::string line; std::getline(std::cin, line);) {
    const auto order = std::find_if(attention::kOrders.begin(), attention::kOrders.end(),
                                    [&](Order one) { return Name(one) == line; });
    Require(order != attention::kOrders.end(), "qk plan: expected the name of an order, got \"{}\"", line);
    const Plan plan{*order, ReadsScores(options.workload) ? Order::kProjected : *order};
    trial.Prepare(plan);
    const auto start = std::chrono::steady_clock::now();
    trial.Run(plan);
    Print("{:.4f}\n", MillisecondsSince(start));
    FlushOutput();
  }
  return 0;
}

int QkPlan(QkPlanOptions options) {
  if (options.model.threads > 0) SetNumThreads(options.model.threads);
  Workload& w = options.workload;
  const bool shapes = w.width > 0;
  if (shapes) {
    if (w.keys == 0) w.keys = 197;
    if (w.queries == 0) w.queries = w.keys;
    if (w.head_width == 0) {
      Require(w.width % w.heads == 0, "qk plan: {} features do not divide into {} heads; give --head-width", w.width,
              w.heads);
      w.head_width = w.width / w.heads;
    }
    Require(options.cached != "latent" || w.latent > 0, "qk plan: --cached latent needs its width, --latent");
    Require(options.model.path.empty(), "qk plan: -m or --width, not both: a model has shapes of its own");
  }
  Require(options.map.empty() || options.map.ends_with(".svg"), "qk plan: --map draws SVG, got {}", options.map);
  w.read = options.read == "scores" ? Read::kScores : Read::kOutputs;
  if (options.cached == "keys") w.cached = attention::Cached::kKeysAndValues;
  if (options.cached == "latent") w.cached = attention::Cached::kLatent;
  if (!options.map.empty()) {
    WriteFile(options.map, lab::BreakEvenMap(shapes ? w : Workload{}));
    return 0;
  }
  if (options.grid) return PlanGrid(options);
  if (!shapes) return PlanModel(options);
  const bool wide = options.dtype == "fp64";
  if (options.from_stdin) return wide ? RunFromStdin<double>(options) : RunFromStdin<float>(options);
  return wide ? PlanShapes<double>(options) : PlanShapes<float>(options);
}

}  // namespace

std::string ShortCount(double count) {
  static constexpr std::pair<double, const char*> kUnits[] = {{1e12, " T"}, {1e9, " G"}, {1e6, " M"}, {1e3, " k"}};
  for (const auto& [unit, name] : kUnits) {
    if (count >= unit) return report::Number(count / unit) + name;
  }
  return report::Number(count);
}

void RegisterQkPlan(Command app, int* exit_code) {
  const auto options = std::make_shared<QkPlanOptions>();
  const Command command = app.AddCommand("plan", "Find the cheapest exact order of attention's products");
  options->model.AddModel(command);
  options->model.AddSize(command);
  const auto size = [&](const char* name, int64_t& value, const char* what) {
    return command.AddOption(name, &value, what).Range(int64_t{1}, int64_t{1} << 24);
  };
  Workload& w = options->workload;
  const Option width = size("--width", w.width, "Features of a token; without it, the model's blocks are planned");
  size("--tokens", w.keys, "Tokens that are looked at (default: 197)").Needs(width);
  size("--queries", w.queries, "Tokens that look, such as 1 for the class token (default: all)").Needs(width);
  command.Find("--heads").Description("Heads: with --width (default: 1), or of a model without a config.json");
  size("--head-width", w.head_width, "Features of a head's query and key (default: width / heads)").Needs(width);
  size("--value-width", w.value_width, "Features of a head's value (default: as the key's)").Needs(width);
  const Option latent = size("--latent", w.latent, "Features of a cached latent").Needs(width);
  size("--batch", w.batch, "Sequences at a time (default: 1)");
  command.AddOption("--cached", &options->cached, "What is cached: nothing, tokens, keys (and values), latent")
      .OneOf({"nothing", "tokens", "keys", "latent"})
      .Needs(width);
  command.AddOption("--read", &options->read, "What is wanted: outputs, scores")
      .OneOf({"outputs", "scores"})
      .Needs(width);
  command.AddOption("--dtype", &options->dtype, "Type of the elements: fp32, fp64").OneOf({"fp32", "fp64"});
  command.AddOption("--threads", &options->model.threads, "Threads (default: all cores)").Range(1, 4096);
  const Option measure =
      command.AddFlag("--measure", &options->measure, "Run each order instead of predicting").Needs(width);
  command.AddOption("--seconds", &options->seconds, "Seconds to measure, in all").Range(0.0, 3600.0);
  const Option json = command.AddFlag("--json", &options->json, "JSON Lines on stdout");
  const Option grid =
      command.AddFlag("--grid", &options->grid, "Predict and measure 200 shapes: how often is the choice best?")
          .Excludes(width);
  command.AddOption("--map", &options->map, "Draw the break-even map to this SVG file")
      .TypeName("FILE")
      .Excludes(measure)
      .Excludes(grid)
      .Excludes(json);
  command
      .AddFlag("--stdin", &options->from_stdin, "For each order's name read, one run, its milliseconds on a line out")
      .Needs(width)
      .Excludes(measure)
      .Excludes(json);
  latent.Excludes(grid);
  command.Callback([options, exit_code] {
    if (options->model.given.heads > 0) options->workload.heads = options->model.given.heads;
    *exit_code = QkPlan(*options);
  });
}

}  // namespace qkv::cli
