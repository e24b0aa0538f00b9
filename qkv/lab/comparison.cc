#include "qkv/lab/comparison.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <sstream>

#include "qkv/app/training/data_kind.h"
#include "qkv/core/file.h"
#include "qkv/core/parallel.h"
#include "qkv/core/thread_count.h"
#include "qkv/lab/ablation_report.h"
#include "qkv/lab/ablation_speed.h"
#include "qkv/simd/isa.h"
#include "qkv/train/data/dataset.h"
#include "qkv/train/run/initial_model.h"
#include "qkv/train/sequences/pairs.h"

namespace qkv::lab {
namespace {

namespace fs = std::filesystem;

// The file of what all runs share; only a comparison reads it.
constexpr const char* kShared = "ablation.yaml";

constexpr std::array<std::string_view, 6> kNotShared = {"attention", "cross-attention", "rank",
                                                        "seed",      "model",           "minutes"};

// A run may be continued for longer; one that has ended is compared as it is.
constexpr std::array<std::string_view, 3> kLength = {"epochs", "steps", "patience"};

template <typename T>
T Parse(const std::string& word, const std::map<std::string, T>& words, std::string_view what) {
  const auto found = words.find(word);
  if (found != words.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [name, value] : words) names.push_back(name);
  Fail("ablate: {}: expected one of {}, got \"{}\"", what, fmt::join(names, ", "), word);
}

// "copy" of "task:copy", "photos" of "../photos/".
std::string NameOfData(const std::string& data) {
  if (const std::optional<train::Task> task = train::ParseTask(data)) return std::string(train::Name(*task));
  const fs::path path = fs::path(data).lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).filename().string();
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

void RequireShared(const train::Settings& settings) {
  for (const std::string_view key : kNotShared) {
    Require(!settings.contains(key), "ablate: '{}' is not for all runs alike: {}", key,
            key == "model"     ? "all begin with new weights"
            : key == "minutes" ? "they are compared after equal steps, which steps or epochs gives"
                               : "arms and seeds say what it is in each");
  }
}

// The same for each kind of data; images and tokens of pairs are read here, and the preset that suits them is added to
// the settings.
AblationData OpenImages(const std::string& path, train::Settings* shared, const app::Note& note) {
  train::Dataset dataset = train::OpenDataset(path);
  AblationData data{.given = path, .name = NameOfData(path), .summary = train::Summary(dataset)};
  app::ChoosePreset(dataset, note, shared);
  data.images = train::ForTraining(std::move(dataset), train::Resolve(*shared).val_fraction, 0);
  data.fingerprint = train::Fingerprint(*data.images);
  return data;
}

AblationData OpenSequences(const std::string& task_or_text, train::Settings* shared) {
  app::ChoosePreset(task_or_text, shared);
  const train::SequenceData sequences = train::SequencesForTraining(task_or_text, train::Resolve(*shared));
  return {.given = task_or_text,
          .name = NameOfData(task_or_text),
          .summary = sequences.summary,
          .fingerprint = sequences.fingerprint};
}

AblationData OpenPairs(const std::string& path, train::Settings* shared) {
  app::ChoosePreset(path, shared);
  AblationData data{.given = path, .name = NameOfData(path)};
  data.pairs = train::PairsForTraining(path, train::Resolve(*shared));
  data.summary = data.pairs->summary;
  data.fingerprint = data.pairs->fingerprint;
  return data;
}

// Throws Error if the data are of several kinds.
app::DataKind CommonKind(const std::vector<std::string>& given, const train::Settings& shared) {
  using Kind = app::DataKind;
  const Kind kind = app::KindOf(given[0], shared);
  for (const std::string& other : given) {
    const Kind own = app::KindOf(other, shared);
    if (own == kind) continue;
    const auto words = [](Kind of) {
      return of == Kind::kImages ? "images" : of == Kind::kSequences ? "sequences" : "pairs of texts";
    };
    // Sequences come first in the message if one of both is sequences.
    const bool swap = kind == Kind::kImages;
    Fail("ablate: {} is of {}, {} of {}: no training is alike for both", swap ? other : given[0],
         words(swap ? own : kind), swap ? given[0] : other, words(swap ? kind : own));
  }
  return kind;
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

}  // namespace

const std::vector<std::string>& AllArms() {
  static const std::vector<std::string> arms = {
      "separate", "separate:qkv-bias=false", "shared", "unified", "shared_kv", "merged", "low_rank", "symmetric"};
  return arms;
}

const std::map<std::string, Budget>& Budgets() {
  static const std::map<std::string, Budget> budgets = {
      {"steps", Budget::kSteps}, {"parameters", Budget::kParameters}, {"flops", Budget::kFlops}};
  return budgets;
}

const std::map<std::string, Varied>& Varieds() {
  static const std::map<std::string, Varied> varieds = {
      {"attention", Varied::kLayers}, {"cross-attention", Varied::kCross}, {"both", Varied::kBoth}};
  return varieds;
}

std::span<const std::string_view> NotShared() { return kNotShared; }

Comparison::Comparison(const ComparisonRequest& request, const app::Note& note) : folder_(request.folder) {
  Require(!request.data.empty() && !request.arms.empty() && request.seeds >= 1,
          "ablate: expected at least one data set, one arm and one seed, got {}, {} and {}", request.data.size(),
          request.arms.size(), request.seeds);
  RequireShared(request.settings);
  train::Settings shared = request.settings;
  OpenData(request, &shared, note);
  varied_ = data_[0].pairs ? Varied::kCross : Varied::kLayers;
  if (!request.varied.empty()) varied_ = Parse(request.varied, Varieds(), "vary");
  Require(data_[0].pairs || varied_ == Varied::kLayers,
          "ablate: vary {} is for pairs of texts; no other model has cross-attention", request.varied);
  ParseArms(request, shared);
  config_ = train::Resolve(shared);
  PlanRuns(request, shared);
  Describe(request);
  RequireSame(request);
  for (const AblationData& data : data_) {
    if (!data.images) continue;
    for (const std::string& text : data.images->notes) app::Notify(note, text);
  }
}

void Comparison::OpenData(const ComparisonRequest& request, train::Settings* shared, const app::Note& note) {
  const app::DataKind kind = CommonKind(request.data, *shared);
  // A fork has none of the threads that a parallel loop leaves waiting.
  const ThreadCount threads(request.forks ? 1 : NumThreads());
  for (const std::string& given : request.data) {
    data_.push_back(kind == app::DataKind::kPairs       ? OpenPairs(given, shared)
                    : kind == app::DataKind::kSequences ? OpenSequences(given, shared)
                                                        : OpenImages(given, shared, note));
  }
  for (const AblationData& data : data_) {
    Require(std::ranges::count(data_, data.name, &AblationData::name) == 1, "ablate: two data sets are called '{}'",
            data.name);
    app::Notify(note, data.summary);
  }
}

void Comparison::ParseArms(const ComparisonRequest& request, const train::Settings& shared) {
  std::vector<std::string> names = request.arms;
  // Marian's layout has all biases.
  if (data_[0].pairs && names == AllArms()) std::erase(names, "separate:qkv-bias=false");
  for (const std::string& name : names) {
    Arm arm = ParseArm(name, shared, varied_);
    Require(std::ranges::find(arms_, arm.settings, &Arm::settings) == arms_.end(), "ablate: '{}' is there twice", name);
    arms_.push_back(std::move(arm));
  }
}

void Comparison::PlanRuns(const ComparisonRequest& request, const train::Settings& shared) {
  const auto plan = [&](const AblationData& data, const Arm& arm, int64_t seed) -> PlannedRun {
    try {
      return {.data = &data,
              .arm = &arm,
              .seed = seed,
              .folder = RunFolderPath(folder_, data, arm, seed),
              .config = MakeConfig(shared, arm, arms_[0], Parse(request.equal, Budgets(), "equal"), seed, data)};
    } catch (const Error& error) {
      Fail("ablate: '{}' on {}: {}", arm.name, data.name, EscapedText{error.what()});
    }
  };
  // Seeds in the outer loop, so that the finished runs are spread evenly over the arms at any time.
  for (int64_t seed = 0; seed < request.seeds; ++seed) {
    for (const AblationData& data : data_) {
      for (const Arm& arm : arms_) runs_.push_back(plan(data, arm, seed));
    }
  }
}

void Comparison::Describe(const ComparisonRequest& request) {
  std::vector<std::string> names, summaries;
  for (const AblationData& data : data_) names.push_back(data.name), summaries.push_back(data.summary);
  results_.varied = Name(varied_);
  results_.title = fmt::format("Kinds of {} on {}", varied_ == Varied::kCross ? "cross-attention" : "attention",
                               fmt::join(names, ", "));
  results_.unit = data_[0].images ? "images" : data_[0].pairs ? "pairs" : "sequences";
  results_.planned = std::ssize(runs_);
  for (const Arm& arm : arms_) results_.arms.push_back(arm.name);

  const auto add = [&](const char* name, std::string words) { results_.facts.emplace_back(name, std::move(words)); };
  add("Data", fmt::format("{}", fmt::join(summaries, "; ")));
  if (data_[0].pairs) {
    add("Kinds apply to", varied_ == Varied::kCross    ? "cross-attention; the layers' own attention is separate"
                          : varied_ == Varied::kLayers ? "the layers' own attention; cross-attention is separate"
                                                       : "the layers' own attention and cross-attention");
  }
  const Budget budget = Parse(request.equal, Budgets(), "equal");
  add("Equal", budget == Budget::kSteps ? "steps" : budget == Budget::kFlops ? "multiply-adds" : "steps, parameters");
  add("Model", DescribeModel(config_));
  const std::string length =
      config_.steps > 0 ? fmt::format("{} steps", config_.steps) : fmt::format("{} epochs", config_.epochs);
  add("Training", fmt::format("{}, {}, batch {}, learning rate {}", config_.opt, length,
                              config_.batch * config_.accumulate, config_.lr));
  add("Machine", fmt::format("{} threads, {} kernels", NumThreads(), simd::Name(simd::ActiveIsa())));
  if (!request.command.empty()) add("Command", request.command);
}

// All runs share a file of settings: a second call adds data, arms or seeds to the same comparison, or is refused.
void Comparison::RequireSame(const ComparisonRequest& request) const {
  const fs::path file = folder_ / kShared;
  const std::string folder = folder_.string();
  Header header;
  header.first = fmt::format("# qkv ablate: what all runs share, equal {}", request.equal);
  // The other arms get the budget of the first.
  if (request.equal != "steps") header.first += " to " + arms_[0].name;
  if (data_[0].pairs) header.first += fmt::format(", {} varied", Name(varied_));
  if (fs::exists(file)) {
    Header before = Header::Of(ReadFile(file));
    Require(before.first == header.first, "ablate: {} holds another comparison:\n  {}\nand this would be\n  {}", folder,
            before.first, header.first);
    train::RequireSameRun(train::Resolve(train::ReadSettings(file)), config_, kLength);
    header.data = std::move(before.data);
  } else {
    // Files of the user are not overwritten.
    for (const char* name : {"results.json", "runs.csv", "arms.csv", "report.md", "report.html"}) {
      Require(!fs::exists(folder_ / name),
              "ablate: folder {} holds a {}, and no comparison; name a new or empty folder", folder, name);
    }
  }
  for (const AblationData& data : data_) {
    const std::string fingerprint = fmt::format("{:016x}", data.fingerprint);
    Require(header.data.emplace(data.name, fingerprint).first->second == fingerprint,
            "ablate: {} holds another comparison: its {} is other data", folder, data.name);
  }
  std::error_code error;
  fs::create_directories(folder_, error);
  Require(!error, "cannot create folder {}: {}", folder, error.message());
  WriteFile(file, header.ToText() + train::ToYaml(config_));
}

void Comparison::Report() {
  results_.runs = EndedRuns(runs_);
  WriteAblationReport(results_, folder_);
}

void Comparison::ReportSpeeds() {
  results_.speeds = MeasureSpeeds(runs_);
  Report();
}

}  // namespace qkv::lab
