// qkv train: a Vision Transformer from a folder of images, a sequence model from a task or a text, or an
// encoder-decoder from pairs of texts.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>
#include <utility>

#include "cli/command.h"
#include "cli/output.h"
#include "cli/processes.h"
#include "cli/train_keys.h"
#include "cli/train_progress.h"
#include "qkv/app/training/training_run.h"
#include "qkv/core/parallel.h"
#include "qkv/train/run/log.h"
#include "qkv/train/sequences/pairs.h"
#include "qkv/train/sequences/sequences.h"

namespace qkv::cli {
namespace {

namespace fs = std::filesystem;

struct TrainOptions {
  std::string data, output, file;
  bool resume = false, quiet = false;
  std::chrono::steady_clock::time_point start;
  train::Settings settings;  // of the command line
};

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

int TrainBy(train::Communicator& processes, const TrainOptions& options) {
  if (processes.threads() > 0) SetNumThreads(processes.threads());
  app::RunRequest request{.data = options.data,
                          .folder = options.output,
                          .settings = CollectSettings(options.file, options.settings),
                          .resume = options.resume};
  if (!processes.first()) {
    app::TrainingRun run(std::move(request), {}, processes);
    StopOnSignals(/*says=*/false);
    train::Observer observer;
    observer.start = options.start;
    observer.stop = [] { return StopSignal() != 0; };
    run.Train(observer);
    return StopSignal() != 0 ? 128 + StopSignal() : 0;
  }
  TrainProgress progress(options.quiet);
  train::Observer observer = progress.Observer();
  app::TrainingRun run(std::move(request), observer.note, processes);
  StopOnSignals();
  observer.start = options.start;
  bool begun = false;
  observer.begun = [&](const train::StartReport&) {
    train::Appender(run.folder().path() / "command").Append(CommandToRepeat());
    begun = true;
  };
  try {
    PrintOutcome(run.Train(observer), run.folder().HasCheckpoint(), options, run.config().valid, progress);
  } catch (const Error& error) {
    // If nothing was trained yet, resuming would fail in the same way.
    if (!begun || !run.folder().HasCheckpoint()) throw;
    Fail("{}\nqkv: what was saved before is whole; to continue from there: qkv train {} -o {} --resume",
         EscapedText{error.what()}, Quoted(options.data), Quoted(options.output));
  }
  return StopSignal() != 0 ? 128 + StopSignal() : 0;
}

int TrainOrSayHow(train::Communicator& processes, const TrainOptions& options) {
  try {
    return TrainBy(processes, options);
  } catch (const train::RunFolderTaken& error) {
    Fail("{}: --resume continues it", EscapedText{error.what()});
  }
}

int Train(const TrainOptions& options) {
  const std::unique_ptr<train::Communicator> processes = JoinProcesses();
  if (processes->alone()) return TrainOrSayHow(*processes, options);
  try {
    return TrainOrSayHow(*processes, options);
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
