// qkv train: a Vision Transformer from a folder of images, a sequence model from a task or a text, or an
// encoder-decoder from pairs of texts.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <thread>

#include "cli/command.h"
#include "cli/output.h"
#include "cli/processes.h"
#include "cli/train_keys.h"
#include "cli/train_maps.h"
#include "cli/train_progress.h"
#include "qkv/core/parallel.h"
#include "qkv/report/text.h"
#include "qkv/train/run/image_run.h"
#include "qkv/train/run/initial_model.h"
#include "qkv/train/run/log.h"
#include "qkv/train/run/pair_model.h"

namespace qkv::cli {
namespace {

namespace fs = std::filesystem;

struct TrainOptions {
  std::string data, output, file;
  bool resume = false, quiet = false;
  std::chrono::steady_clock::time_point start;
  train::Settings settings;  // of the command line
};

// The configuration of a new run, or that of the run in `folder` with the changes that are allowed.
template <typename Data>
train::TrainConfig MakeConfig(const TrainOptions& options, const fs::path& folder, const Data& data, bool speaks) {
  const train::Settings& named = options.settings;
  Require(!named.contains("minutes") || !(named.contains("steps") || named.contains("epochs")),
          "train: --minutes is instead of --{}; give one of them", named.contains("steps") ? "steps" : "epochs");
  train::Settings given = CollectSettings(options.file, options.settings);
  const fs::path file = folder / train::RunFolder::kConfig;
  if (options.resume && fs::exists(file)) {
    const train::Settings begun = train::ReadRunSettings(file);
    const train::TrainConfig config = train::Resolve(train::MergeSettings(begun, given));
    train::RequireSameRun(train::Resolve(begun), config);
    return config;
  }
  if (options.resume && speaks) PrintMessage("qkv: there is no run {} yet: a new one begins\n", options.output);
  ChoosePreset(data, speaks, &given);
  return train::Resolve(given);
}

// Further commands for a model of this data.
std::string UsageHints(const std::string& data, const std::string& run) {
  if (train::ParseTask(data) || train::IsPairs(data)) return "";
  if (train::IsSequenceData(data)) return FormatShown("  qkv generate -m {} --prompt TEXT\n", run);
  return FormatShown("  qkv classify -m {} IMAGE…\n  qkv attend -m {} -o maps.html IMAGE\n", run, run);
}

// saved: the folder has a checkpoint.
// pairs: the file of validation pairs, if one was given.
void PrintOutcome(const train::Outcome& outcome, bool saved, const TrainOptions& options, const std::string& pairs,
                  TrainProgress& progress) {
  using Reason = train::Outcome::Reason;
  const std::string run = Quoted(options.output), data = Quoted(options.data);
  if (outcome.reason == Reason::kStopped && outcome.steps == 0) {
    progress.Say("stopped before the first step: there is nothing to save" +
                 (saved ? fmt::format("; to continue: qkv train {} -o {} --resume", data, run) : ""));
    return;
  }
  if (outcome.reason == Reason::kStopped) {
    progress.Say(fmt::format("stopped after step {} of {}, saved; to continue: qkv train {} -o {} --resume",
                             outcome.step, outcome.steps, data, run));
    return;
  }
  if (outcome.reason == Reason::kNoImprovement) {
    progress.Say(fmt::format("stopped early after step {} of {}: no better evaluation since epoch {}", outcome.step,
                             outcome.steps, outcome.best_epoch));
  }
  PrintMessage("{}: {:.2f} % of the validation {} right, loss {:.4f} (epoch {})", options.output,
               100 * outcome.best_top1, outcome.unit, outcome.best_loss, outcome.best_epoch);
  if (outcome.rows > 0) PrintMessage(", {:.0f} {}/s", outcome.rows_per_second, outcome.unit);
  // Pairs are validated on a split of the file, or on the file that was given for it.
  const std::string valid = pairs.empty() ? data + " --split val" : Quoted(pairs);
  PrintMessage("\n  qkv evaluate -m {} {}\n", run, train::IsPairs(options.data) ? valid : data);
  PrintMessageRaw(UsageHints(options.data, run));
}

// The contents of a batch, in words.
std::string BatchesOf(const train::TrainingData& data) {
  return fmt::format("of {} images", report::WithCommas(data.train.size()));
}
std::string BatchesOf(const train::SequenceData& data) { return fmt::format("sequences of {} tokens", data.length); }
std::string BatchesOf(const train::PairData& data) {
  return fmt::format("tokens of {} pairs", report::WithCommas(data.train.size()));
}

// "vit-tiny, 5,717,416 parameters: 31,200 steps of 128 of 50,000 images"
std::string StartLine(const train::TrainConfig& config, const train::StartReport& start, const std::string& batches) {
  return fmt::format("{}, {} parameters: {} of {} {}{}", config.model.empty() ? config.preset : config.model,
                     report::WithCommas(start.parameters),
                     start.steps > 0 ? report::WithCommas(start.steps) + " steps"
                                     : fmt::format("the steps that fit into {} minutes,", config.minutes),
                     report::WithCommas(config.batch * config.accumulate), batches,
                     start.step > 0 ? fmt::format(", {} taken before", report::WithCommas(start.step)) : "");
}

// A barrier: returns when all processes have called it.
void Barrier(train::Communicator& processes) {
  double nothing = 0;
  processes.Sum({&nothing, 1});
}

// data: images, or sequences. maps: attention maps of images, or none.
template <typename Data>
int TrainOn(train::Communicator& processes, const TrainOptions& options, const train::TrainConfig& config,
            const Data& data, const std::vector<std::string>& notes, std::optional<MapImages> maps) {
  if (!processes.first()) Barrier(processes);  // rank 0 makes the folder
  train::RunFolder folder =
      processes.first() ? train::RunFolder(options.output, options.resume) : train::RunFolder::Reader(options.output);
  if (processes.first()) Barrier(processes);
  StopOnSignals(/*says=*/processes.first());
  if (!processes.first()) {
    train::Observer observer;
    observer.start = options.start;
    observer.stop = [] { return StopSignal() != 0; };
    train::Train(config, data, folder, observer, &processes);
    return StopSignal() != 0 ? 128 + StopSignal() : 0;
  }
  TrainProgress progress(folder.path(), options.quiet);
  if (maps) progress.DrawMaps(*std::move(maps));
  for (const std::string& note : notes) progress.Say(note);
  if (!processes.alone()) {
    const int threads = config.threads > 0 ? static_cast<int>(config.threads) : NumThreads();
    progress.Say(fmt::format("{} processes of {} thread{} each", processes.size(), threads, threads == 1 ? "" : "s"));
  }
  train::Observer observer = progress.Observer();
  observer.start = options.start;
  bool begun = false;
  observer.begun = [&](const train::StartReport& start) {
    progress.Say(StartLine(config, start, BatchesOf(data)));
    train::Appender(folder.path() / "command").Append(CommandToRepeat());
    begun = true;
  };
  try {
    const train::Outcome outcome = train::Train(config, data, folder, observer, &processes);
    PrintOutcome(outcome, folder.HasCheckpoint(), options, config.valid, progress);
  } catch (const Error& error) {
    // If nothing was trained yet, resuming would fail in the same way.
    if (!begun || !folder.HasCheckpoint()) throw;
    Fail("{}\nqkv: what was saved before is whole; to continue from there: qkv train {} -o {} --resume",
         EscapedText{error.what()}, Quoted(options.data), Quoted(options.output));
  }
  return StopSignal() != 0 ? 128 + StopSignal() : 0;
}

// A table of image paths without endings looks like pairs, so a preset of images decides.
bool AsksForImages(const TrainOptions& options) {
  const train::Settings given = CollectSettings(options.file, options.settings);
  const auto preset = given.find("preset");
  return preset != given.end() && !train::IsForSequences(preset->second);
}

int TrainBy(train::Communicator& processes, const TrainOptions& options) {
  if (processes.threads() > 0) SetNumThreads(processes.threads());
  if (train::IsPairs(options.data) && !AsksForImages(options)) {
    const train::TrainConfig config = MakeConfig(options, options.output, options.data, processes.first());
    const fs::path last = fs::path(options.output) / "last";
    const bool resumes = options.resume && fs::exists(last / "config.json");
    const train::PairData data = train::PairsForTraining(options.data, config, resumes ? last : fs::path());
    if (processes.first()) PrintMessage("qkv: {}\n", data.summary);
    return TrainOn(processes, options, config, data, {}, {});
  }
  if (train::IsSequenceData(options.data)) {
    const train::TrainConfig config = MakeConfig(options, options.output, options.data, processes.first());
    const train::SequenceData data = train::SequencesForTraining(options.data, config);
    if (processes.first()) PrintMessage("qkv: {}\n", data.summary);
    return TrainOn(processes, options, config, data, {}, {});
  }
  train::Dataset dataset = train::OpenDataset(options.data);
  if (processes.first()) PrintMessage("qkv: {}\n", train::Summary(dataset));
  const train::TrainConfig config = MakeConfig(options, options.output, dataset, processes.first());
  const train::TrainingData data =
      train::ForTraining(std::move(dataset), config.val_fraction, static_cast<uint64_t>(config.seed));
  std::optional<MapImages> maps;
  if (processes.first() && !config.maps.empty() && config.maps != "0") {
    maps = ChooseMapImages(config.maps, data, static_cast<uint64_t>(config.seed));
  }
  return TrainOn(processes, options, config, data, data.notes, std::move(maps));
}

int Train(const TrainOptions& options) {
  const std::unique_ptr<train::Communicator> processes = JoinProcesses();
  if (processes->alone()) return TrainBy(*processes, options);
  try {
    return TrainBy(*processes, options);
  } catch (const std::exception& error) {
    // If all processes hit the same error, rank 0 reports it and ends the others by SIGTERM before they do.
    constexpr std::chrono::milliseconds kWait{1000}, kLook{10};
    for (auto waited = kLook; !processes->first() && waited < kWait; waited += kLook) {
      std::this_thread::sleep_for(kLook);
      if (StopSignal() != 0) std::_Exit(1);
    }
    PrintMessage("qkv: process {} of {}: {}\n", processes->rank() + 1, processes->size(), EscapedText{error.what()});
    std::fflush(stderr);
    processes->Abort(1);
    throw;
  }
}

}  // namespace

void RegisterTrain(Command app, int* exit_code) {
  const auto options = std::make_shared<TrainOptions>();
  const Command command =
      app.AddCommand("train",
                     "Train a Vision Transformer on images, a sequence model on a task or a text, or a translator "
                     "on pairs of texts");
  command
      .AddOption("DATA", &options->data,
                 "Folder with train/CLASS/… (and val/ or test/), or CLASS/…; CIFAR-10 or -100; MNIST; a CSV file; a "
                 "text file; pairs of texts, a .tsv with a source and a target a line; or "
                 "task:copy|reverse|sort|swap|next-token|recall")
      .Required();
  command.AddOption("-o,--output", &options->output, "Folder of the run: model, log, curves, and what --resume needs")
      .Required()
      .TypeName("RUN");
  command.AddOption("--config", &options->file, "YAML or JSON file of the keys that follow, which win over it")
      .TypeName("FILE");
  command.AddFlag("--resume", &options->resume,
                  "Continue the run in RUN, to the bit as if it had not been stopped; without one, start it");
  command.AddFlag("-q,--quiet", &options->quiet, "No progress line");
  AddTrainKeys(command, &options->settings);
  command.Footer(
      "Examples:\n"
      "  qkv train photos -o run                      what suits the images' size\n"
      "  qkv train photos -o run -m vit-base          from trained weights: the best for few images\n"
      "  qkv train photos -o run --resume             goes on where it was stopped\n"
      "  qkv train cifar-10-binary.tar.gz -o run --preset vit-cifar --epochs 40\n"
      "  qkv train photos -o run --config run.yaml    keys as above: \"lr: 3e-4\"\n"
      "  qkv train book.txt -o run                    the next byte of a text, for qkv generate\n"
      "  qkv train pairs.tsv -o run                   an encoder-decoder, from a source and a target a line");
  command.Callback([options, exit_code] {
    options->start = std::chrono::steady_clock::now();
    *exit_code = Train(*options);
  });
}

}  // namespace qkv::cli
