// qkv train: a Vision Transformer from a folder of images.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <optional>
#include <thread>

#include "cli/command.h"
#include "cli/processes.h"
#include "cli/train_curves.h"
#include "cli/train_maps.h"
#include "qkv/core/file.h"
#include "qkv/core/parallel.h"
#include "qkv/image/image.h"
#include "qkv/train/log.h"
#include "qkv/train/run.h"

namespace qkv::cli {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string data, output, file;
  bool resume = false, quiet = false;
  train::Settings settings;  // of the command line
};

volatile std::sig_atomic_t stop_signal = 0;

// The first signal asks for an end after the step, a second one finds the system's own handler.
void StopOnSignals() {
  struct sigaction action {};
  action.sa_handler = [](int number) { stop_signal = number; };
  action.sa_flags = SA_RESETHAND | SA_RESTART;
  for (const int number : {SIGINT, SIGTERM, SIGUSR1}) ::sigaction(number, &action, nullptr);
}

// As a POSIX shell reads it.
std::string Quoted(const std::string& word) {
  if (!word.empty() && word.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                              "_-+=./,:@%") == word.npos) {
    return word;
  }
  std::string quoted = "'";
  for (const char letter : word) quoted += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return quoted + "'";
}

// The command that this process was started by, to be run again.
std::string CommandLine() {
  std::ifstream arguments("/proc/self/cmdline", std::ios::binary);
  std::string line = "cd " + Quoted(fs::current_path().string()) + " &&";
  for (std::string word; std::getline(arguments, word, '\0');) line += " " + Quoted(word);
  return line + "\n";
}

std::string Duration(double seconds) {
  const auto whole = static_cast<int64_t>(seconds + 0.5);
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
}

// What is said while it runs: a line that is written over on a terminal, a line that stays for each evaluation.
class Teller {
 public:
  /// maps: empty, or to be drawn.
  Teller(const Options& options, const fs::path& folder, std::optional<MapImages> maps)
      : folder_(folder), shown_(!options.quiet && ::isatty(STDERR_FILENO) == 1) {
    if (maps) maps_.emplace(folder / "maps", *std::move(maps));
  }
  ~Teller() { Clear(); }

  train::Observer Observer() {
    train::Observer observer;
    observer.note = [this](const std::string& note) { Say(note); };
    observer.reading = [this](const char* what, int64_t done, int64_t total) {
      Over(fmt::format("reading {}: {}/{} images", what, done, total));
    };
    observer.step = [this](const train::StepReport& report) { Step(report); };
    if (maps_) observer.evaluated = [this](const train::EvaluatedModel& model) { maps_->Draw(model); };
    observer.evaluation = [this](const train::EvaluationReport& report) { Evaluation(report); };
    observer.stop = [] { return stop_signal != 0; };
    return observer;
  }

  void Say(const std::string& text) {
    Clear();
    fmt::print(stderr, "qkv: {}\n", text);
  }

 private:
  using Clock = std::chrono::steady_clock;
  // Smooth enough for the eye.
  static constexpr std::chrono::milliseconds kBetween{100};

  void Step(const train::StepReport& r) {
    Over(fmt::format("epoch {}  step {}/{}  loss {:.4f}  accuracy {:.1f} %  {:.0f} images/s  {} left", r.epoch, r.step,
                     r.steps, r.loss, 100 * r.accuracy, r.images_per_second, Duration(r.seconds_left)));
  }
  void Evaluation(const train::EvaluationReport& r) {
    Clear();
    fmt::print(stderr, "epoch {:>3}  training: loss {:.4f}, {:.2f} %  validation: loss {:.4f}, {:.2f} %{}\n", r.epoch,
               r.train_loss, 100 * r.train_accuracy, r.loss, 100 * r.top1, r.best ? "  best" : "");
    WriteFile(folder_ / "curves.svg", DrawCurves(train::ReadLog(folder_ / "log.jsonl"), folder_.string()));
  }
  void Over(const std::string& text) {
    if (!shown_ || Clock::now() - drawn_ < kBetween) return;
    drawn_ = Clock::now();
    fmt::print(stderr, "\r\x1b[K{}", text);
    std::fflush(stderr);
  }
  void Clear() {
    if (shown_ && drawn_ != Clock::time_point{}) fmt::print(stderr, "\r\x1b[K");
  }

  const fs::path folder_;
  const bool shown_;
  std::optional<TrainMaps> maps_;
  Clock::time_point drawn_{};
};

train::Settings Over(train::Settings below, const train::Settings& above) {
  for (const auto& [key, value] : above) below[key] = value;
  return below;
}

// By the first image that can be read.
std::string_view PresetFor(const train::Split& images) {
  if (images.files.empty()) {
    const Shape& shape = images.pixels.shape();
    return train::PresetFor(shape[1], shape[2], static_cast<int>(shape[3]));
  }
  for (const fs::path& file : images.files) {
    try {
      const image::Image image = image::DecodeFile(file);
      return train::PresetFor(image.height(), image.width(), image.channels() <= 2 ? 1 : 3);
    } catch (const Error&) {  // named later, with all others
    }
  }
  Fail("train: none of {} images can be read; the first is {}", images.files.size(), images.files[0].string());
}

// The configuration of a run that begins, or of the one in `folder` with what may be changed in it.
train::TrainConfig ConfigOf(const Options& options, const fs::path& folder, const train::Dataset& dataset,
                            bool speaks) {
  train::Settings given = options.file.empty() ? train::Settings() : train::ReadSettings(options.file);
  given = Over(given, options.settings);
  const fs::path file = folder / train::RunFolder::kConfig;
  if (options.resume && fs::exists(file)) {
    const train::Settings begun = train::ReadSettings(file);
    const train::TrainConfig config = train::Resolve(Over(begun, given));
    train::RequireSameRun(train::Resolve(begun), config);
    return config;
  }
  if (!given.contains("preset") && !given.contains("model")) {
    given["preset"] = PresetFor(dataset.splits.at(0));
    if (speaks)
      fmt::print(stderr, "qkv: preset {} for images of this size (--preset takes another)\n", given["preset"]);
  }
  return train::Resolve(given);
}

void SayOutcome(const train::Outcome& outcome, const Options& options, Teller& teller) {
  using Why = train::Outcome::Why;
  const std::string run = Quoted(options.output), data = Quoted(options.data);
  if (outcome.why == Why::kStopped) {
    teller.Say(fmt::format("stopped after step {} of {}, saved; to continue: qkv train {} -o {} --resume", outcome.step,
                           outcome.steps, data, run));
    return;
  }
  if (outcome.why == Why::kNoBetter) {
    teller.Say(fmt::format("stopped early after step {} of {}: no better evaluation since epoch {}", outcome.step,
                           outcome.steps, outcome.best_epoch));
  }
  fmt::print(stderr, "{}: {:.2f} % of the validation images right (epoch {})", options.output, 100 * outcome.best_top1,
             outcome.best_epoch);
  if (outcome.images > 0) fmt::print(stderr, ", {:.0f} images/s", outcome.images_per_second);
  fmt::print(stderr, "\n  qkv evaluate -m {} {}\n  qkv classify -m {} IMAGE…\n  qkv attend -m {} -o maps.html IMAGE\n",
             run, data, run, run);
}

// What all wait for.
void Meet(train::Communicator& processes) {
  double nothing = 0;
  processes.Sum({&nothing, 1});
}

int TrainBy(train::Communicator& processes, const Options& options) {
  train::Dataset dataset = train::OpenDataset(options.data);
  if (processes.first()) fmt::print(stderr, "qkv: {}\n", train::Summary(dataset));
  const train::TrainConfig config = ConfigOf(options, options.output, dataset, processes.first());
  if (processes.threads() > 0) SetNumThreads(processes.threads());
  const train::TrainingData data =
      train::ForTraining(std::move(dataset), config.val_fraction, static_cast<uint64_t>(config.seed));
  std::optional<MapImages> maps;
  if (processes.first() && !config.maps.empty() && config.maps != "0") {
    maps = ChooseMapImages(config.maps, data, static_cast<uint64_t>(config.seed));
  }
  if (!processes.first()) Meet(processes);  // the first makes the folder
  train::RunFolder folder =
      processes.first() ? train::RunFolder(options.output, options.resume) : train::RunFolder::Reader(options.output);
  if (processes.first()) Meet(processes);
  StopOnSignals();
  if (!processes.first()) {
    train::Observer observer;
    observer.stop = [] { return stop_signal != 0; };
    train::Train(config, data, folder, observer, &processes);
    return stop_signal != 0 ? 128 + stop_signal : 0;
  }
  WriteFile(folder.path() / train::RunFolder::kConfig, train::ToYaml(config));
  train::Appender(folder.path() / "command").Append(CommandLine());
  Teller teller(options, folder.path(), std::move(maps));
  for (const std::string& note : data.notes) teller.Say(note);
  if (!processes.alone()) {
    const int threads = config.threads > 0 ? static_cast<int>(config.threads) : NumThreads();
    teller.Say(fmt::format("{} processes of {} thread{} each", processes.size(), threads, threads == 1 ? "" : "s"));
  }
  try {
    SayOutcome(train::Train(config, data, folder, teller.Observer(), &processes), options, teller);
  } catch (const Error& error) {
    if (!folder.HasCheckpoint()) throw;
    Fail("{}\nqkv: what was saved before is whole; to continue from there: qkv train {} -o {} --resume", error.what(),
         Quoted(options.data), Quoted(options.output));
  }
  return stop_signal != 0 ? 128 + stop_signal : 0;
}

int Train(const Options& options) {
  const std::unique_ptr<train::Communicator> processes = JoinProcesses();
  if (processes->alone()) return TrainBy(*processes, options);
  try {
    return TrainBy(*processes, options);
  } catch (const std::exception& error) {
    // Where all have met with the same, the first one says it, and ends the others, by SIGTERM, before they do.
    constexpr std::chrono::milliseconds kWait{1000}, kLook{10};
    for (auto waited = kLook; !processes->first() && waited < kWait; waited += kLook) {
      std::this_thread::sleep_for(kLook);
      if (stop_signal != 0) std::_Exit(1);
    }
    fmt::print(stderr, "qkv: process {} of {}: {}\n", processes->rank() + 1, processes->size(), error.what());
    std::fflush(stderr);
    processes->Abort(1);
    throw;
  }
}

// "N", "X", "HxW", …: what stands for a value.
std::string TypeName(const train::Key& key) {
  if (!key.choices.empty()) return std::string(key.choices);
  constexpr const char* kNames[] = {"", "N", "X", "TEXT", "HxW", "X,…"};  // in the order of Key::member's types
  return key.name == "model" ? "MODEL" : kNames[key.member.index()];
}

}  // namespace

void RegisterTrain(CLI::App& app, int* exit_code) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("train", "Train a Vision Transformer on images");
  command
      ->add_option("DATA", options->data,
                   "Folder with train/CLASS/… (and val/ or test/), or CLASS/…; CIFAR-10 or -100; MNIST; a CSV file")
      ->required();
  command->add_option("-o,--output", options->output, "Folder of the run: model, log, curves, and what --resume needs")
      ->required()
      ->type_name("RUN");
  command->add_option("--config", options->file, "YAML or JSON file of the keys that follow, which win over it")
      ->type_name("FILE");
  command->add_flag("--resume", options->resume, "Continue the run in RUN, to the bit as if it had not been stopped");
  command->add_flag("-q,--quiet", options->quiet, "No progress line");
  for (const train::Key& key : train::Keys()) {
    const std::string name(key.name), help(key.help);
    CLI::Option* option = nullptr;
    if (train::IsSwitch(key)) {
      option = command->add_flag_function(
          fmt::format("--{0},!--no-{0}", name),
          [options, name](int64_t count) { options->settings[name] = count > 0 ? "true" : "false"; }, help);
    } else {
      option = command->add_option_function<std::string>(
          (name == "model" ? "-m,--" : "--") + name,
          [options, name](const std::string& value) { options->settings[name] = value; }, help);
      option->type_name(TypeName(key))->take_last();
      option->check([&key](const std::string& text) -> std::string {
        try {
          train::TrainConfig ignored;
          train::Set(key, text, "--" + std::string(key.name), &ignored);
          return {};
        } catch (const Error& error) {
          return error.what();
        }
      });
    }
    option->group(std::string(key.group));
  }
  command->footer(
      "Examples:\n"
      "  qkv train photos -o run                      what suits the images' size\n"
      "  qkv train photos -o run -m vit-base          from trained weights: the best for few images\n"
      "  qkv train photos -o run --resume             goes on where it was stopped\n"
      "  qkv train cifar-10-binary.tar.gz -o run --preset vit-cifar --epochs 40\n"
      "  qkv train photos -o run --config run.yaml    keys as above: \"lr: 3e-4\"");
  command->callback([options, exit_code] { *exit_code = Train(*options); });
}

}  // namespace qkv::cli
