// qkv qk plan: the cheapest exact order of attention's products, for given shapes or each block of a model.
#include "cli/qk_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <vector>

#include "cli/bench.h"
#include "cli/output.h"
#include "qkv/core/file.h"
#include "qkv/core/parallel.h"
#include "qkv/lab/plan_map.h"
#include "qkv/lab/plan_model.h"
#include "qkv/lab/plan_shapes.h"
#include "qkv/lab/plan_timing.h"
#include "qkv/lab/plan_trial.h"
#include "qkv/report/table.h"
#include "qkv/simd/isa.h"

namespace qkv::cli {
namespace {

using attention::Order;
using attention::Plan;
using attention::Read;
using attention::Workload;

bool ReadsScores(const Workload& w) { return w.read == Read::kScores; }

template <typename T>
void Measure(double seconds, lab::ShapePlans* plans) {
  lab::Trial<T> trial(plans->workload);
  for (const lab::PlanRow& row : plans->rows) trial.Prepare(row.plan);
  const std::vector<Times> times =
      Interleave(plans->rows.size(), seconds, [&](size_t i) { trial.Run(plans->rows[i].plan); });
  for (size_t i = 0; i < plans->rows.size(); ++i) plans->rows[i].measured = times[i].best() / 1e3;
  plans->fastest = std::ranges::min_element(plans->rows, {}, &lab::PlanRow::measured)->plan;
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

template <typename T>
int PlanShapes(const QkPlanOptions& options) {
  const Workload& w = options.workload;
  const lab::Costs costs = lab::MeasureCosts<T>();
  lab::ShapePlans plans = lab::ListPlans<T>(w, &costs);
  if (options.measure) Measure<T>(options.seconds, &plans);
  if (options.json) {
    io::Json json = ToJson(plans);
    json["cached"] = options.cached, json["dtype"] = options.dtype;
    PrintJsonLine(json);
    return 0;
  }
  Print("{}\n\n", DescribeWorkload(options));
  PrintRaw(ToText(ToTable(plans)) + '\n' + lab::MergingVerdict(w) + '\n');
  if (const std::string absorbing = lab::AbsorbingVerdict(w); !absorbing.empty()) Print("{}\n", absorbing);
  Print("Fewest multiply-adds: {}. Fastest here, {}: {}.\n", lab::PlanName(plans.cheapest, w),
        options.measure ? "measured" : "predicted", lab::PlanName(*plans.fastest, w));
  return 0;
}

// Prints the orders that inference uses, and their savings.
int PlanModel(const QkPlanOptions& options) {
  const app::AnyModel model = OpenModel(options.model);
  model.Require("qk plan", app::kReplaceMatrices);
  const model::VitConfig c = model::InputConfig(model.images().description);
  const int64_t tokens = model.facts().config.tokens();
  const lab::ModelPlan plan = lab::PlanModel(model.images(), tokens, options.workload.batch);
  if (options.json) {
    for (const lab::BlockPlan& blocks : plan.blocks) PrintJsonLine(ToJson(blocks));
    return 0;
  }
  const std::string queries = c.block.attention.query_width() == c.block.attention.head_width
                                  ? ""
                                  : fmt::format(" (queries of {})", c.block.attention.query_width());
  const std::string verdicts = fmt::format("{}", fmt::join(MergingVerdicts(plan), "\n"));
  Print(
      "{} ({}), {} attention, {} tokens, width {}, {} heads of {}{}; multiply-adds of one block's attention, batch {}"
      "\n\n{}\n{}\nAll blocks: {} multiply-adds instead of {}, {:.2f} % saved.\n",
      options.model.path.empty() ? "built-in digit classifier" : options.model.path, c.architecture,
      model::Name(c.block.attention.kind), tokens, c.block.width, c.block.attention.heads, c.block.attention.head_width,
      queries, options.workload.batch, EscapedText{ToText(ToTable(plan))}, EscapedText{verdicts},
      lab::ShortCount(plan.chosen), lab::ShortCount(plan.of_all_rows), 100 * plan.saved());
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
    w = lab::Complete(w);
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
