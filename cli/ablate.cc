// qkv ablate: the same training for each kind of attention and seed, and a report of what differs.
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <sstream>

#include "cli/ablate_runs.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/train_keys.h"
#include "cli/train_progress.h"
#include "qkv/app/training/data_kind.h"
#include "qkv/core/file.h"
#include "qkv/core/parallel.h"
#include "qkv/lab/ablation_report.h"
#include "qkv/lab/ablation_speed.h"
#include "qkv/simd/isa.h"
#include "qkv/train/data/dataset.h"
#include "qkv/train/run/initial_model.h"
#include "qkv/train/sequences/pairs.h"

namespace qkv::cli {
namespace {

namespace fs = std::filesystem;

const std::map<std::string, lab::Budget> kBudgets = {
    {"steps", lab::Budget::kSteps}, {"parameters", lab::Budget::kParameters}, {"flops", lab::Budget::kFlops}};

// The file of what all runs share; only `qkv ablate` reads it.
constexpr const char* kShared = "ablation.yaml";

const std::map<std::string, lab::Varied> kVaried = {
    {"attention", lab::Varied::kLayers}, {"cross-attention", lab::Varied::kCross}, {"both", lab::Varied::kBoth}};

// Keys that are not options here: --arms sets attention, cross-attention and rank, --seeds the seed, and all runs start
// with new weights.
constexpr std::array<std::string_view, 6> kNotShared = {"attention", "cross-attention", "rank",
                                                        "seed",      "model",           "minutes"};

const std::vector<std::string> kAllArms = {
    "separate", "separate:qkv-bias=false", "shared", "unified", "shared_kv", "merged", "low_rank", "symmetric"};

struct AblateOptions {
  std::vector<std::string> data;
  std::string output, file, equal = "steps", varied;
  std::vector<std::string> arms = kAllArms;
  int64_t seeds = 3, processes = 1;
  bool quiet = false;
  train::Settings settings;  // of the command line
};

// "copy" of "task:copy", "photos" of "../photos/".
std::string NameOfData(const std::string& data) {
  if (const std::optional<train::Task> task = train::ParseTask(data)) return std::string(train::Name(*task));
  const fs::path path = fs::path(data).lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

// What is known before the first run.
struct Comparison {
  std::vector<lab::Arm> arms;
  lab::Varied varied = lab::Varied::kLayers;
  train::TrainConfig config;  // shared by all runs
  std::vector<lab::AblationData> data;
  std::vector<lab::PlannedRun> runs;
  lab::AblationResults results;
};

// Which attention the arms change: cross-attention for pairs of texts, unless --vary says otherwise.
lab::Varied ChooseVaried(const AblateOptions& options, const std::vector<lab::AblationData>& data) {
  const bool pairs = data[0].pairs.has_value();
  if (options.varied.empty()) return pairs ? lab::Varied::kCross : lab::Varied::kLayers;
  const lab::Varied varied = kVaried.at(options.varied);
  Require(pairs || varied == lab::Varied::kLayers,
          "ablate: --vary {} is for pairs of texts; no other model has cross-attention", options.varied);
  return varied;
}

std::vector<lab::Arm> ParseArms(const AblateOptions& options, const train::Settings& shared,
                                const Comparison& comparison) {
  std::vector<lab::Arm> arms;
  std::vector<std::string> names = options.arms;
  // Marian's layout has all biases.
  if (comparison.data[0].pairs && names == kAllArms) std::erase(names, "separate:qkv-bias=false");
  for (const std::string& name : names) {
    lab::Arm arm = lab::ParseArm(name, shared, comparison.varied);
    Require(std::ranges::find(arms, arm.settings, &lab::Arm::settings) == arms.end(), "ablate: '{}' is there twice",
            name);
    arms.push_back(std::move(arm));
  }
  return arms;
}

std::string DescribeModel(const train::TrainConfig& config) {
  const std::string blocks = fmt::format("width {}, depth {}, heads {}", config.width, config.depth, config.heads);
  if (train::IsForPairs(config.preset)) {
    return fmt::format("width {}, depth {} + {}, heads {}, norms {} the layers", config.width, config.depth,
                       config.decoder_depth > 0 ? config.decoder_depth : config.depth, config.heads, config.norm_place);
  }
  if (train::IsForSequences(config.preset)) {
    return fmt::format("{}, {} positions{}", blocks, config.positions, config.causal ? ", causal" : "");
  }
  return fmt::format("{}, {} × {} in patches of {} × {}", blocks, config.image_size.first, config.image_size.second,
                     config.patch_size.first, config.patch_size.second);
}

std::vector<std::pair<std::string, std::string>> CollectFacts(const AblateOptions& options,
                                                              const Comparison& comparison) {
  const train::TrainConfig& config = comparison.config;
  std::string data;
  for (const lab::AblationData& set : comparison.data) data += (data.empty() ? "" : "; ") + set.summary;
  std::vector<std::pair<std::string, std::string>> facts = {{"Data", data}};
  if (comparison.data[0].pairs) {
    facts.emplace_back("Kinds apply to", comparison.varied == lab::Varied::kCross
                                             ? "cross-attention; the layers' own attention is separate"
                                         : comparison.varied == lab::Varied::kLayers
                                             ? "the layers' own attention; cross-attention is separate"
                                             : "the layers' own attention and cross-attention");
  }
  const std::vector<std::pair<std::string, std::string>> more = {
      {"Equal", options.equal == "steps"   ? "steps"
                : options.equal == "flops" ? "multiply-adds"
                                           : "steps, parameters"},
      {"Model", DescribeModel(config)},
      {"Training",
       fmt::format("{}, {}, batch {}, learning rate {}", config.opt,
                   config.steps > 0 ? fmt::format("{} steps", config.steps) : fmt::format("{} epochs", config.epochs),
                   config.batch * config.accumulate, config.lr)},
      {"Machine", fmt::format("{} threads, {} kernels", NumThreads(), simd::Name(simd::ActiveIsa()))},
      {"Command", CommandLine()}};
  facts.insert(facts.end(), more.begin(), more.end());
  return facts;
}

// Settings of the file, overridden by those of the command line.
train::Settings SharedSettings(const AblateOptions& options) {
  train::Settings shared = CollectSettings(options.file, options.settings);
  for (const std::string_view key : kNotShared) {
    Require(!shared.contains(key), "ablate: '{}' is not for all runs alike: {}", key,
            key == "model"     ? "all begin with new weights"
            : key == "minutes" ? "they are compared after equal steps, which --steps or --epochs gives"
                               : "--arms and --seeds say what it is in each");
  }
  return shared;
}

// Images. Adds the preset that suits them to the settings.
std::vector<lab::AblationData> OpenImages(const std::vector<std::string>& given, train::Settings* shared) {
  std::vector<lab::AblationData> all;
  for (const std::string& path : given) {
    train::Dataset dataset = train::OpenDataset(path);
    lab::AblationData& data = all.emplace_back();
    data.given = path, data.name = NameOfData(path), data.summary = train::Summary(dataset);
    app::ChoosePreset(
        dataset, [](const std::string& note) { PrintMessage("qkv: {}\n", note); }, shared);
    data.images = train::ForTraining(std::move(dataset), train::Resolve(*shared).val_fraction, 0);
    data.fingerprint = train::Fingerprint(*data.images);
  }
  return all;
}

// The same for tasks and text files.
std::vector<lab::AblationData> OpenSequences(const std::vector<std::string>& given, train::Settings* shared) {
  std::vector<lab::AblationData> all;
  for (const std::string& task_or_text : given) {
    app::ChoosePreset(task_or_text, shared);
    const train::SequenceData sequences = train::SequencesForTraining(task_or_text, train::Resolve(*shared));
    lab::AblationData& data = all.emplace_back();
    data.given = task_or_text, data.name = NameOfData(task_or_text), data.summary = sequences.summary;
    data.fingerprint = sequences.fingerprint;
  }
  return all;
}

// The same for pairs of texts. Their tokens are made on one core if processes are to be started: a fork has none of the
// threads that a parallel loop leaves waiting.
std::vector<lab::AblationData> OpenPairs(const std::vector<std::string>& given, bool alone, train::Settings* shared) {
  std::vector<lab::AblationData> all;
  const int threads = NumThreads();
  if (!alone) SetNumThreads(1);
  for (const std::string& path : given) {
    app::ChoosePreset(path, shared);
    lab::AblationData& data = all.emplace_back();
    data.pairs = train::PairsForTraining(path, train::Resolve(*shared));
    data.given = path, data.name = NameOfData(path), data.summary = data.pairs->summary;
    data.fingerprint = data.pairs->fingerprint;
  }
  SetNumThreads(threads);
  return all;
}

std::vector<lab::AblationData> OpenData(const AblateOptions& options, train::Settings* shared) {
  const std::vector<std::string>& given = options.data;
  using Kind = app::DataKind;
  const Kind kind = app::KindOf(given[0], *shared);
  for (const std::string& other : given) {
    const Kind own = app::KindOf(other, *shared);
    if (own == kind) continue;
    const auto words = [](Kind of) {
      return of == Kind::kImages ? "images" : of == Kind::kSequences ? "sequences" : "pairs of texts";
    };
    // Sequences come first in the message if one of both is sequences.
    const bool swap = kind == Kind::kImages;
    Fail("ablate: {} is of {}, {} of {}: no training is alike for both", swap ? other : given[0],
         words(swap ? own : kind), swap ? given[0] : other, words(swap ? kind : own));
  }
  std::vector<lab::AblationData> all = kind == Kind::kPairs       ? OpenPairs(given, options.processes == 1, shared)
                                       : kind == Kind::kSequences ? OpenSequences(given, shared)
                                                                  : OpenImages(given, shared);
  for (const lab::AblationData& data : all) {
    Require(std::ranges::count(all, data.name, &lab::AblationData::name) == 1, "ablate: two data sets are called '{}'",
            data.name);
    PrintMessage("qkv: {}\n", data.summary);
  }
  return all;
}

lab::PlannedRun PlanRun(const AblateOptions& options, const train::Settings& shared, const Comparison& comparison,
                        const lab::AblationData& data, const lab::Arm& arm, int64_t seed) {
  try {
    return {.data = &data,
            .arm = &arm,
            .seed = seed,
            .folder = lab::RunFolderPath(options.output, data, arm, seed),
            .config = lab::MakeConfig(shared, arm, comparison.arms[0], kBudgets.at(options.equal), seed, data)};
  } catch (const Error& error) {
    Fail("ablate: '{}' on {}: {}", arm.name, data.name, EscapedText{error.what()});
  }
}

Comparison Plan(const AblateOptions& options) {
  Comparison comparison;
  train::Settings shared = SharedSettings(options);
  comparison.data = OpenData(options, &shared);
  comparison.varied = ChooseVaried(options, comparison.data);
  comparison.arms = ParseArms(options, shared, comparison);
  comparison.config = train::Resolve(shared);
  // Seeds in the outer loop, so that the finished runs are spread evenly over the arms at any time.
  for (int64_t seed = 0; seed < options.seeds; ++seed) {
    for (const lab::AblationData& data : comparison.data) {
      for (const lab::Arm& arm : comparison.arms) {
        comparison.runs.push_back(PlanRun(options, shared, comparison, data, arm, seed));
      }
    }
  }
  std::vector<std::string> names;
  for (const lab::AblationData& data : comparison.data) names.push_back(data.name);
  lab::AblationResults& results = comparison.results;
  results.varied = lab::Name(comparison.varied);
  results.title =
      fmt::format("Kinds of {} on {}", comparison.varied == lab::Varied::kCross ? "cross-attention" : "attention",
                  fmt::join(names, ", "));
  results.facts = CollectFacts(options, comparison);
  results.unit = comparison.data[0].images ? "images" : comparison.data[0].pairs ? "pairs" : "sequences";
  results.planned = std::ssize(comparison.runs);
  for (const lab::Arm& arm : comparison.arms) results.arms.push_back(arm.name);
  return comparison;
}

// The part of kShared before the keys: how runs are made equal, and the data of all calls so far.
struct Header {
  static constexpr std::string_view kData = "# data ";

  std::string first;                        // line
  std::map<std::string, std::string> data;  // fingerprints by name

  static Header Of(const std::string& text) {
    Header header;
    std::istringstream lines(text);
    std::getline(lines, header.first);
    for (std::string line; std::getline(lines, line) && line.starts_with(kData);) {
      const size_t end = line.rfind(' ');
      header.data.emplace(line.substr(kData.size(), end - kData.size()), line.substr(end + 1));
    }
    return header;
  }
  std::string ToText() const {
    std::string text = first + "\n";
    for (const auto& [name, fingerprint] : data) text += fmt::format("{}{} {}\n", kData, name, fingerprint);
    return text;
  }
};

// All runs share a file of settings: a second call adds data, arms or seeds to the same comparison, or is refused.
void RequireSameComparison(const AblateOptions& options, const Comparison& comparison) {
  const fs::path file = fs::path(options.output) / kShared;
  Header header;
  header.first = fmt::format("# qkv ablate: what all runs share, equal {}", options.equal);
  // The other arms get the budget of the first.
  if (options.equal != "steps") header.first += " to " + comparison.arms[0].name;
  if (comparison.data[0].pairs) header.first += fmt::format(", {} varied", lab::Name(comparison.varied));
  if (fs::exists(file)) {
    Header before = Header::Of(ReadFile(file));
    Require(before.first == header.first, "ablate: {} holds another comparison:\n  {}\nand this would be\n  {}",
            options.output, before.first, header.first);
    train::RequireSameRun(train::Resolve(train::ReadSettings(file)), comparison.config);
    header.data = std::move(before.data);
  } else {
    // Files of the user are not overwritten.
    for (const char* name : {"results.json", "runs.csv", "arms.csv", "report.md", "report.html"}) {
      Require(!fs::exists(fs::path(options.output) / name),
              "ablate: folder {} holds a {}, and no comparison; name a new or empty folder", options.output, name);
    }
  }
  for (const lab::AblationData& data : comparison.data) {
    const std::string fingerprint = fmt::format("{:016x}", data.fingerprint);
    Require(header.data.emplace(data.name, fingerprint).first->second == fingerprint,
            "ablate: {} holds another comparison: its {} is other data", options.output, data.name);
  }
  std::error_code error;
  fs::create_directories(options.output, error);
  Require(!error, "cannot create folder {}: {}", options.output, error.message());
  WriteFile(file, header.ToText() + train::ToYaml(comparison.config));
}

int Ablate(const AblateOptions& options) {
  Comparison comparison = Plan(options);
  RequireSameComparison(options, comparison);
  for (const lab::AblationData& data : comparison.data) {
    if (!data.images) continue;
    for (const std::string& note : data.images->notes) PrintMessage("qkv: {}\n", note);
  }
  StopOnSignals();
  const auto report = [&] {
    comparison.results.runs = lab::EndedRuns(comparison.runs);
    lab::WriteAblationReport(comparison.results, options.output);
  };
  const RunQueue queue{
      .runs = comparison.runs, .quiet = options.quiet, .ended = report, .processes = options.processes};
  if (options.processes > 1) {
    TrainInProcesses(queue);
  } else {
    TrainRuns(queue);
  }
  if (StopSignal() != 0) {
    PrintMessage("qkv: stopped; the same command goes on from there\n");
    return 128 + StopSignal();
  }
  ExitOnSignals();  // nothing is left to save
  comparison.results.speeds = lab::MeasureSpeeds(comparison.runs);
  report();
  PrintRaw(lab::ToText(comparison.results));
  FlushOutput();
  PrintMessage("qkv: {}\n", (fs::path(options.output) / "report.html").string());
  const size_t missing = comparison.runs.size() - comparison.results.runs.size();
  if (missing == 0) return 0;
  PrintMessage("qkv: {} of {} runs are missing; the same command trains them\n", missing, comparison.runs.size());
  return 1;
}

}  // namespace

void RegisterAblate(Command app, int* exit_code) {
  const auto options = std::make_shared<AblateOptions>();
  const Command command =
      app.AddCommand("ablate", "Train each kind of attention in the same way and compare the results");
  command
      .AddOption("DATA", &options->data,
                 "Images: folders with train/CLASS/… (and val/ or test/), or CLASS/…; CIFAR-10 or -100; MNIST; CSV "
                 "files. Or sequences: task:copy|reverse|sort|swap|next-token|recall; text files. Or pairs of texts: "
                 ".tsv files with a source and a target a line")
      .Required();
  command.AddOption("-o,--output", &options->output, "Folder of the comparison: its runs and its report")
      .Required()
      .TypeName("FOLDER");
  command
      .AddOption("--arms", &options->arms,
                 "Kinds of attention, each perhaps with keys: low_rank:rank=8, separate:qkv-bias=false. Differences "
                 "are to the first")
      .TypeName("ARM,…")
      .Separated(',')  // the next argument may be data
      .ShowDefault();
  command.AddOption("--seeds", &options->seeds, "Runs of each arm, with seeds 0, 1, …")
      .Range(1, 1000)
      .TypeName("N")
      .ShowDefault();
  command
      .AddOption("--equal", &options->equal,
                 "What all arms have alike: steps; parameters too, by the MLP's width; or multiply-adds, by steps")
      .OneOf(kBudgets)
      .TypeName("steps|parameters|flops")
      .ShowDefault();
  command
      .AddOption(
          "--vary", &options->varied,
          "For pairs: which attention the arms change: the layers' own attention, the decoder's attention to the "
          "encoder (default), or both")
      .OneOf(kVaried)
      .TypeName("attention|cross-attention|both");
  command.AddOption("--processes", &options->processes, "That share the runs, and the cores")
      .Range(1, 1024)
      .TypeName("N")
      .ShowDefault();
  command.AddOption("--config", &options->file, "YAML or JSON file of the keys that follow, which win over it")
      .TypeName("FILE");
  command.AddFlag("-q,--quiet", &options->quiet, "No progress line");
  AddTrainKeys(command, &options->settings, kNotShared);
  command.Footer(
      "Runs that have ended are not trained again: the same command goes on where it was stopped, and with more\n"
      "--seeds, --arms or DATA it adds to the comparison. FOLDER gets report.html, report.md, accuracy-DATA.svg,\n"
      "arms.csv, runs.csv and results.json (for `qkv qk claims --ablation`).\n\n"
      "Examples:\n"
      "  qkv ablate cifar-10-binary.tar.gz -o kinds --patch-size 8 --epochs 10\n"
      "  qkv ablate photos -o init --arms separate,separate:init=mimetic --seeds 5\n"
      "  qkv ablate photos -o rank --arms separate,low_rank:rank=4,low_rank:rank=16 --equal parameters\n"
      "  qkv ablate task:copy task:reverse task:recall -o tasks --seeds 5 --threads 1 --processes 2\n"
      "  qkv ablate pairs.tsv -o cross                which kinds cross-attention can bear");
  command.Callback([options, exit_code] { *exit_code = Ablate(*options); });
}

}  // namespace qkv::cli
