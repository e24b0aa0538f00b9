// qkv bench: how fast a model runs here, in which precision, and what the lower ones cost.
#include "cli/bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string_view>

#include "qkv/core/parallel.h"

namespace qkv::cli {
namespace {

struct Saving {
  std::string_view name;
  bool model::BuildOptions::*option;
};
constexpr Saving kSavings[] = {
    {"fold-norms", &model::BuildOptions::fold_norms},
    {"fold-scales", &model::BuildOptions::fold_scales},
    {"fold-biases", &model::BuildOptions::fold_key_value_bias},
    {"read-rows", &model::BuildOptions::read_rows},
    {"absorb", &model::BuildOptions::absorb},
};

std::string SavingNames() {
  std::string names;
  for (const Saving& saving : kSavings) names += fmt::format("{}{}", names.empty() ? "" : ", ", saving.name);
  return names;
}

// Switches off what `list` names.
void SwitchOff(const std::string& list, model::BuildOptions* build) {
  size_t begin = 0;
  while (begin < list.size()) {
    const size_t end = std::min(list.find(',', begin), list.size());
    const std::string_view name = std::string_view(list).substr(begin, end - begin);
    bool known = name == "all";
    for (const Saving& saving : kSavings) {
      if (name != "all" && name != saving.name) continue;
      build->*saving.option = false;
      known = true;
    }
    Require(known, "--without: expected all, or some of {} separated by commas, got \"{}\"", SavingNames(), name);
    begin = end + 1;
  }
}

struct Modes {
  bool from_stdin = false, layer = false, attention = false;
};

int Bench(const BenchOptions& options, const Modes& modes) {
  // Without a precision, a comparison of all; one line of stdin cannot be answered by several.
  const bool all = options.model.dtype.empty() && !modes.from_stdin;
  std::vector<simd::Precision> precisions{simd::Precision::kFloat32};
  if (all) {
    precisions = {simd::Precision::kFloat32, simd::Precision::kBfloat16, simd::Precision::kInt8};
  } else if (!options.model.dtype.empty()) {
    precisions = {ParsePrecision(options.model.dtype)};
  }
  if (options.model.threads > 0) SetNumThreads(options.model.threads);
  if (modes.attention) return BenchAttention(options);
  if (modes.layer) return BenchLayers(options, precisions);
  if (modes.from_stdin) return BenchFromStdin(options, precisions.front());
  return BenchModel(options, precisions);
}

}  // namespace

model::Model LoadForBench(const model::Checkpoint& checkpoint, const BenchOptions& options, simd::Precision precision) {
  model::BuildOptions build{.precision = precision};
  SwitchOff(options.without, &build);
  return LoadModel(checkpoint, options.model, build);
}

double MillisecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

void RegisterBench(CLI::App& app, int* exit_code) {
  const auto options = std::make_shared<BenchOptions>();
  const auto modes = std::make_shared<Modes>();
  options->model.dtype.clear();
  CLI::App* command = app.add_subcommand("bench", "Measure a model's speed on this machine");
  options->model.AddModel(*command);
  options->model.AddSize(*command);
  options->model.AddCompute(*command);
  command->add_option("IMAGE", options->images, "Images or folders to measure the drift on (default: random inputs)");
  command->add_option("--batch", options->batch, "Images a pass")->check(CLI::Range(1, 4096))->capture_default_str();
  command->add_option("--seconds", options->seconds, "How long to measure")
      ->check(CLI::Range(0.0, 3600.0))
      ->capture_default_str();
  command->add_option("--without", options->without, "Exact savings to switch off: all, or some of " + SavingNames())
      ->type_name("LIST");
  auto* json = command->add_flag("--json", options->json, "JSON Lines on stdout");
  auto* from_stdin =
      command->add_flag("--stdin", modes->from_stdin, "For each line read, one pass, its milliseconds on a line out");
  auto* layer = command->add_flag("--layer", modes->layer, "The linear layers of a block, one by one");
  auto* attention = command->add_flag("--attention", modes->attention, "Attention alone, over the number of tokens");
  from_stdin->excludes(json)->excludes(layer)->excludes(attention);
  layer->excludes(attention);
  command->callback([options, modes, exit_code] { *exit_code = Bench(*options, *modes); });
}

}  // namespace qkv::cli
