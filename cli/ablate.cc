// qkv ablate: the same training for each kind of attention and seed, and a report of what differs.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>

#include "cli/ablate_runs.h"
#include "cli/command.h"
#include "cli/train_keys.h"
#include "cli/train_teller.h"
#include "qkv/core/file.h"
#include "qkv/core/parallel.h"
#include "qkv/lab/ablation_report.h"
#include "qkv/simd/isa.h"
#include "qkv/train/standing.h"

namespace qkv::cli {
namespace {

namespace fs = std::filesystem;

const std::map<std::string, lab::Budget> kBudgets = {
    {"steps", lab::Budget::kSteps}, {"parameters", lab::Budget::kParameters}, {"flops", lab::Budget::kFlops}};

// What all runs share, for `qkv ablate` alone to read.
constexpr const char* kShared = "ablation.yaml";

struct Options {
  std::string data, output, file, equal = "steps";
  std::vector<std::string> arms = {
      "separate", "separate:qkv-bias=false", "shared", "unified", "shared_kv", "merged", "low_rank", "symmetric"};
  int64_t seeds = 3, processes = 1;
  bool quiet = false;
  train::Settings settings;  // of the command line
};

// "photos" of "../photos/".
std::string NameOfData(const std::string& data) {
  const fs::path path = fs::path(data).lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

// Everything that is known before the first run.
struct Comparison {
  std::vector<lab::Arm> arms;
  train::TrainConfig config;  // that all runs share
  train::TrainingData data;
  std::vector<PlannedRun> runs;
  lab::AblationResults results;
};

std::vector<lab::Arm> ArmsOf(const Options& options, const train::Settings& shared) {
  std::vector<lab::Arm> arms;
  for (const std::string& name : options.arms) {
    lab::Arm arm = lab::ParseArm(name, shared);
    Require(std::ranges::find(arms, arm.settings, &lab::Arm::settings) == arms.end(), "ablate: '{}' is there twice",
            name);
    arms.push_back(std::move(arm));
  }
  return arms;
}

std::vector<std::pair<std::string, std::string>> FactsOf(const Options& options, const train::TrainConfig& config,
                                                         const std::string& data) {
  return {{"Data", data},
          {"Equal", options.equal == "steps"   ? "steps"
                    : options.equal == "flops" ? "multiply-adds"
                                               : "steps, parameters"},
          {"Model", fmt::format("width {}, depth {}, heads {}, {} × {} in patches of {} × {}", config.width,
                                config.depth, config.heads, config.image_size.first, config.image_size.second,
                                config.patch_size.first, config.patch_size.second)},
          {"Training", fmt::format("{}, {}, batch {}, learning rate {}", config.opt,
                                   config.steps > 0 ? fmt::format("{} steps", config.steps)
                                                    : fmt::format("{} epochs", config.epochs),
                                   config.batch * config.accumulate, config.lr)},
          {"Machine", fmt::format("{} threads, {} kernels", NumThreads(), simd::Name(simd::ActiveIsa()))},
          {"Command", CommandLine()}};
}

Comparison Plan(const Options& options) {
  Comparison comparison;
  train::Settings shared = GivenSettings(options.file, options.settings);
  for (const char* key : {"attention", "rank", "seed", "model"}) {
    Require(!shared.contains(key), "ablate: '{}' is not for all runs alike: {}", key,
            key == std::string("model") ? "all begin with new weights" : "--arms and --seeds say what it is in each");
  }
  train::Dataset dataset = train::OpenDataset(options.data);
  const std::string summary = train::Summary(dataset);
  fmt::print(stderr, "qkv: {}\n", summary);
  ChoosePreset(dataset, /*speaks=*/true, &shared);
  comparison.arms = ArmsOf(options, shared);
  comparison.config = train::Resolve(shared);
  comparison.data = train::ForTraining(std::move(dataset), comparison.config.val_fraction, 0);
  // Seeds outside, so that what is there when somebody stops is as even as can be.
  for (int64_t seed = 0; seed < options.seeds; ++seed) {
    for (const lab::Arm& arm : comparison.arms) {
      comparison.runs.push_back({.data = NameOfData(options.data),
                                 .arm = &arm,
                                 .seed = seed,
                                 .folder = FolderOfRun(options.output, arm, seed),
                                 .config = lab::ConfigOf(shared, arm, comparison.arms[0], kBudgets.at(options.equal),
                                                         seed, comparison.data.classes, comparison.data.train.size())});
    }
  }
  comparison.results = {.title = "Kinds of attention on " + NameOfData(options.data),
                        .facts = FactsOf(options, comparison.config, summary),
                        .arms = {},
                        .planned = std::ssize(comparison.runs),
                        .runs = {},
                        .speeds = {}};
  for (const lab::Arm& arm : comparison.arms) comparison.results.arms.push_back(arm.name);
  return comparison;
}

// What all runs share is kept beside them: a second call adds arms or seeds to the same comparison, or is refused.
void RequireSameComparison(const Options& options, const Comparison& comparison) {
  const fs::path file = fs::path(options.output) / kShared;
  std::string first = fmt::format("# qkv ablate: what all runs share. Data {:016x}, equal {}",
                                  train::Fingerprint(comparison.data), options.equal);
  // The others' budgets are the first arm's.
  if (options.equal != "steps") first += " to " + comparison.arms[0].name;
  if (fs::exists(file)) {
    const std::string text = ReadFile(file);
    const std::string before = text.substr(0, text.find('\n'));
    Require(before == first, "ablate: {} holds another comparison:\n  {}\nand this would be\n  {}", options.output,
            before, first);
    train::RequireSameRun(train::Resolve(train::ReadSettings(file)), comparison.config);
  }
  std::error_code error;
  fs::create_directories(options.output, error);
  Require(!error, "cannot create folder {}: {}", options.output, error.message());
  WriteFile(file, first + "\n" + train::ToYaml(comparison.config));
}

int Ablate(const Options& options) {
  Comparison comparison = Plan(options);
  RequireSameComparison(options, comparison);
  for (const std::string& note : comparison.data.notes) fmt::print(stderr, "qkv: {}\n", note);
  StopOnSignals();
  const auto report = [&] {
    comparison.results.runs = EndedRuns(comparison.runs);
    lab::WriteAblationReport(comparison.results, options.output);
  };
  const RunQueue queue{.runs = comparison.runs,
                       .data = &comparison.data,
                       .quiet = options.quiet,
                       .ended = report,
                       .processes = options.processes};
  if (options.processes > 1) {
    TrainInProcesses(queue);
  } else {
    TrainRuns(queue);
  }
  if (StopSignal() != 0) {
    fmt::print(stderr, "qkv: stopped; the same command goes on from there\n");
    return 128 + StopSignal();
  }
  comparison.results.speeds = MeasureSpeeds(comparison.runs);
  report();
  fmt::print("{}", lab::ToText(comparison.results));
  FlushOutput();
  fmt::print(stderr, "qkv: {}\n", (fs::path(options.output) / "report.html").string());
  const size_t missing = comparison.runs.size() - comparison.results.runs.size();
  if (missing == 0) return 0;
  fmt::print(stderr, "qkv: {} of {} runs are missing; the same command trains them\n", missing, comparison.runs.size());
  return 1;
}

}  // namespace

void RegisterAblate(CLI::App& app, int* exit_code) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("ablate", "Train each kind of attention alike, and compare what comes out");
  command
      ->add_option("DATA", options->data,
                   "Folder with train/CLASS/… (and val/ or test/), or CLASS/…; CIFAR-10 or -100; MNIST; a CSV file")
      ->required();
  command->add_option("-o,--output", options->output, "Folder of the comparison: its runs and its report")
      ->required()
      ->type_name("FOLDER");
  command
      ->add_option("--arms", options->arms,
                   "Kinds of attention, each perhaps with keys: low_rank:rank=8, separate:qkv-bias=false. Differences "
                   "are to the first")
      ->type_name("ARM,…")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--seeds", options->seeds, "Runs of each arm, with seeds 0, 1, …")
      ->check(CLI::Range(1, 1000))
      ->type_name("N")
      ->capture_default_str();
  command
      ->add_option("--equal", options->equal,
                   "What all arms have alike: steps; parameters too, by the MLP's width; or multiply-adds, by steps")
      ->check(CLI::IsMember(kBudgets))
      ->type_name("steps|parameters|flops")
      ->capture_default_str();
  command->add_option("--processes", options->processes, "That share the runs, and the cores")
      ->check(CLI::Range(1, 1024))
      ->type_name("N")
      ->capture_default_str();
  command->add_option("--config", options->file, "YAML or JSON file of the keys that follow, which win over it")
      ->type_name("FILE");
  command->add_flag("-q,--quiet", options->quiet, "No progress line");
  AddTrainKeys(*command, &options->settings);
  command->footer(
      "Runs that have ended are not trained again: the same command goes on where it was stopped, and with more\n"
      "--seeds or --arms it adds to the comparison. FOLDER gets report.html, report.md, accuracy.svg, arms.csv,\n"
      "runs.csv and results.json (for `qkv qk claims --ablation`).\n\n"
      "Examples:\n"
      "  qkv ablate cifar-10-binary.tar.gz -o kinds --patch-size 8 --epochs 10\n"
      "  qkv ablate photos -o init --arms separate,separate:init=mimetic --seeds 5\n"
      "  qkv ablate photos -o rank --arms separate,low_rank:rank=4,low_rank:rank=16 --equal parameters");
  command->callback([options, exit_code] { *exit_code = Ablate(*options); });
}

}  // namespace qkv::cli
