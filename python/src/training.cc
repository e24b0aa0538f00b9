#include "python/src/training.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/processes.h"
#include "python/src/call.h"
#include "python/src/objects.h"
#include "python/src/tensors.h"
#include "qkv/app/training/curves.h"
#include "qkv/app/training/training_run.h"
#include "qkv/builtin/ablations.h"
#include "qkv/core/pause.h"
#include "qkv/lab/ablation_report.h"
#include "qkv/lab/comparison.h"
#include "qkv/train/run/log.h"

namespace qkv::python {
namespace {

// Those that a launcher started together. MPI begins once a process, and ends with it.
train::Communicator& Processes() {
  static const std::unique_ptr<train::Communicator> processes = cli::JoinProcesses();
  return *processes;
}

train::Settings SettingsOf(const nb::dict& given) {
  train::Settings settings;
  for (const auto& [key, value] : given) settings[nb::cast<std::string>(key)] = PathOf(value);
  return settings;
}

// Images [n, height, width, channels] in memory, or files.
train::Split SplitOf(const nb::handle& name, const nb::handle& labels, const nb::handle& images) {
  train::Split split{.name = nb::cast<std::string>(name), .labels = nb::cast<std::vector<int64_t>>(labels)};
  if (nb::isinstance<nb::list>(images)) {
    for (const nb::handle file : nb::borrow<nb::list>(images)) split.files.emplace_back(PathOf(file));
    return split;
  }
  const auto pixels = nb::cast<nb::ndarray<const uint8_t, nb::ndim<4>, nb::device::cpu, nb::c_contig>>(images);
  const auto extent = [&](size_t axis) { return static_cast<int64_t>(pixels.shape(axis)); };
  split.pixels = Tensor<uint8_t>({extent(0), extent(1), extent(2), extent(3)});
  std::copy_n(pixels.data(), pixels.size(), split.pixels.data());
  return split;
}

app::RunRequest RequestOf(const nb::object& data, const nb::str& folder, const nb::dict& settings, bool resume) {
  app::RunRequest request{.folder = PathOf(folder), .settings = SettingsOf(settings), .resume = resume};
  if (nb::isinstance<nb::str>(data)) {
    request.data = PathOf(data);
    return request;
  }
  const auto given = nb::cast<nb::tuple>(data);  // (names of the classes, [(name, labels, images)])
  train::Dataset& dataset = request.images.emplace();
  dataset.format = "images in memory";
  dataset.classes = nb::cast<std::vector<std::string>>(given[0]);
  for (const nb::handle split : nb::borrow<nb::list>(given[1])) {
    dataset.splits.push_back(SplitOf(split[0], split[1], split[2]));
    if (!dataset.splits.back().files.empty()) dataset.format = "image files";
  }
  return request;
}

io::Json ToJson(const train::StepReport& r) {
  return {{"step", r.step},
          {"steps", r.steps},
          {"epoch", r.epoch},
          {"loss", r.loss},
          {"accuracy", r.accuracy},
          {"learning_rate", r.learning_rate},
          {"rows_per_second", r.rows_per_second},
          {"seconds_left", r.seconds_left},
          {"unit", r.unit}};
}

io::Json ToJson(const train::EvaluationReport& r) {
  io::Json more = io::Json::object();
  for (const auto& [name, value] : r.more) more[name] = value;
  return {{"step", r.step},
          {"epoch", r.epoch},
          {"train_loss", r.train_loss},
          {"train_accuracy", r.train_accuracy},
          {"loss", r.loss},
          {"accuracy", r.top1},
          {"best", r.best},
          {"more", more}};
}

// What is observed of a run calls tell("note" | "reading" | "step" | "evaluation", values).
train::Observer ObserverOf(Call& call, const nb::callable& tell) {
  const auto report = [&call, &tell](const char* event, const io::Json& values) {
    call.InPython([&] { tell(event, ToPython(values)); });
  };
  train::Observer observer;
  observer.note = [report](const std::string& text) { report("note", text); };
  observer.reading = [report](const char* what, int64_t done, int64_t total) {
    report("reading", {{"what", what}, {"done", done}, {"total", total}});
  };
  observer.step = [report](const train::StepReport& step) {
    report("step", ToJson(step));
    Pause();  // the calls of other threads
  };
  observer.evaluation = [report](const train::EvaluationReport& evaluation) {
    report("evaluation", ToJson(evaluation));
  };
  return observer;
}

std::unique_ptr<app::TrainingRun> OpenRun(app::RunRequest request, const app::Note& note,
                                          train::Communicator& processes) {
  try {
    return std::make_unique<app::TrainingRun>(std::move(request), note, processes);
  } catch (const train::RunFolderTaken& error) {
    Fail("{}: resume=True continues it", EscapedText{error.what()});
  }
}

// Trains until the end; false if it was stopped before.
bool Train(const nb::object& data, const nb::str& folder, const nb::dict& settings, bool resume,
           const nb::callable& tell) {
  const auto start = std::chrono::steady_clock::now();
  train::Communicator& processes = Processes();
  app::RunRequest request = RequestOf(data, folder, settings, resume);
  Call call(processes.threads(), OnException::kStop);
  return call.Run([&] {
    train::Observer observer;
    if (processes.first()) observer = ObserverOf(call, tell);
    observer.start = start;
    observer.stop = [&] { return call.stopped(); };
    const std::unique_ptr<app::TrainingRun> run = OpenRun(std::move(request), observer.note, processes);
    const train::Outcome outcome = run->Train(observer);
    double nothing = 0;
    processes.Sum({&nothing, 1});  // the folder is whole when any of them returns
    return outcome.reason != train::Outcome::Reason::kStopped;
  });
}

// Trains what is missing of a comparison. tell as in Train, and tell("run" | "ended" | "failed", values).
void Ablate(const std::vector<std::string>& data, const nb::str& folder, const std::vector<std::string>& arms,
            int64_t seeds, const std::string& equal, const std::string& varied, const nb::dict& settings,
            const nb::callable& tell) {
  lab::ComparisonRequest request{.data = data,
                                 .folder = PathOf(folder),
                                 .seeds = seeds,
                                 .equal = equal,
                                 .varied = varied,
                                 .settings = SettingsOf(settings)};
  if (!arms.empty()) request.arms = arms;
  Call call(/*threads=*/0, OnException::kStop);
  call.Run([&] {
    const auto report = [&](const char* event, const io::Json& values) {
      call.InPython([&] { tell(event, ToPython(values)); });
    };
    lab::Comparison comparison(request, [&](const std::string& text) { report("note", text); });
    const size_t count = comparison.runs().size();
    const auto name = [&](size_t i) { return lab::RunName(comparison.runs()[i]); };
    lab::RunsObserver observer;
    observer.stop = [&] { return call.stopped(); };
    observer.run = [&](size_t i) {
      report("run", {{"number", i + 1}, {"count", count}, {"name", name(i)}});
      return ObserverOf(call, tell);
    };
    observer.ended = [&](size_t i, const lab::RunResult& result) {
      report("ended", {{"name", name(i)}, {"accuracy", result.top1}, {"loss", result.loss}});
      comparison.Report();
    };
    observer.failed = [&](size_t i, const std::string& why) { report("failed", {{"name", name(i)}, {"why", why}}); };
    lab::TrainRuns(comparison.runs(), observer);
    if (!call.stopped()) comparison.ReportSpeeds();
  });
}

io::Json ToJson(const lab::Interval& interval) { return {interval.mean, interval.half}; }

// One row of numbers for each arm; an interval is [mean, half its width].
io::Json RowsOf(const std::vector<lab::ArmSummary>& arms) {
  io::Json rows = io::Json::array();
  for (const lab::ArmSummary& arm : arms) {
    rows.push_back({{"arm", arm.arm},
                    {"seeds", arm.runs.size()},
                    {"accuracy", ToJson(arm.top1)},
                    {"difference", ToJson(arm.difference)},
                    {"loss", ToJson(arm.loss)},
                    {"train_accuracy", arm.train_top1},
                    {"bleu", ToJson(arm.bleu)},
                    {"bleu_difference", ToJson(arm.bleu_difference)},
                    {"symmetry", arm.symmetry},
                    {"effective_rank", arm.effective_rank},
                    {"rank99", arm.rank99},
                    {"parameters", arm.runs.front()->parameters},
                    {"flops", arm.runs.front()->flops}});
  }
  return rows;
}

// The content of results.json: in words, and for each data set its numbers, table and charts.
nb::dict Summarise(const std::string& text, const std::string& where) {
  const lab::AblationResults results = lab::AblationResults::FromJson(text, where);
  nb::dict summary, sets;
  summary["text"] = lab::ToText(results);
  for (const std::string& data : results.Data()) {
    const std::vector<lab::ArmSummary> arms = lab::Summarise(results, data);
    nb::dict set;
    nb::list charts;
    charts.append(report::Draw(lab::AccuracyChart(arms, data)));
    if (std::ranges::any_of(arms, [](const auto& arm) { return std::isfinite(arm.difference.mean); })) {
      charts.append(report::Draw(lab::DifferenceChart(arms, data)));
    }
    set["rows"] = ToPython(RowsOf(arms));
    set["table"] = report::ToHtml(lab::AccuracyTable(arms, ""));
    set["charts"] = charts;
    sets[nb::str(data.c_str())] = set;
  }
  summary["data"] = sets;
  return summary;
}

nb::dict StoredAblations() {
  nb::dict stored;
  for (const builtin::StoredAblation& one : builtin::Ablations()) {
    const std::string name = std::filesystem::path(one.name).stem();
    stored[nb::str(name.c_str())] = nb::str(one.text.data(), one.text.size());
  }
  return stored;
}

nb::list Keys() {
  constexpr const char* kTypes[] = {"bool", "int", "float", "str", "size", "floats"};  // as of Key::member
  const train::TrainConfig defaults;
  nb::list keys;
  for (const train::Key& key : train::Keys()) {
    nb::list choices;
    for (const std::string_view choice : train::ListChoices(key)) choices.append(nb::str(choice.data(), choice.size()));
    const auto text = [](std::string_view of) { return nb::str(of.data(), of.size()); };
    keys.append(nb::make_tuple(text(key.name), text(key.group), kTypes[key.member.index()],
                               train::FormatValue(key, defaults), text(key.help), choices));
  }
  return keys;
}

nb::dict RunSettings(const nb::str& folder) {
  nb::dict settings;
  const auto file = std::filesystem::path(PathOf(folder)) / train::RunFolder::kConfig;
  for (const auto& [key, value] : train::ReadRunSettings(file)) settings[nb::str(key.c_str())] = ToPathName(value);
  return settings;
}

nb::list RunLog(const nb::str& folder) {
  nb::list lines;
  for (const io::Json& line : train::ReadLog(std::filesystem::path(PathOf(folder)) / "log.jsonl")) {
    lines.append(ToPython(line));
  }
  return lines;
}

std::string RunCurves(const nb::str& folder) {
  const std::filesystem::path run = PathOf(folder);
  return app::DrawCurves(train::ReadLog(run / "log.jsonl"), run.string());
}

}  // namespace

void BindTraining(nb::module_& module) {
  using namespace nb::literals;
  module.def("train", &Train, "data"_a, "folder"_a, "settings"_a, "resume"_a, "tell"_a,
             "False if it was stopped. data: a path, or (classes, [(name, labels, files or pixels)]).");
  module.def("training_keys", &Keys, "(name, group, type, default, meaning, choices) of each key.");
  module.def("training_rank", [] { return Processes().rank(); });
  module.def("training_processes", [] { return Processes().size(); });
  module.def(
      "abort_processes", [](int exit_code) { Processes().Abort(exit_code); }, "exit_code"_a);
  module.def("ablate", &Ablate, "data"_a, "folder"_a, "arms"_a, "seeds"_a, "equal"_a, "varied"_a, "settings"_a,
             "tell"_a, "No arms: all.");
  module.def("summarise", &Summarise, "text"_a, "where"_a);
  module.def("stored_ablations", &StoredAblations, "Texts of results.json, by name.");
  module.def("run_settings", &RunSettings, "folder"_a);
  module.def("run_log", &RunLog, "folder"_a);
  module.def("run_curves", &RunCurves, "folder"_a, "SVG");
}

}  // namespace qkv::python
