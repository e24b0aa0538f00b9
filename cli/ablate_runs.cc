#include "cli/ablate_runs.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <set>

#include "cli/bench.h"
#include "cli/bench_step.h"
#include "cli/output.h"
#include "cli/train_progress.h"
#include "qkv/core/file.h"
#include "qkv/core/parallel.h"
#include "qkv/model/sequence/pair_generation.h"
#include "qkv/model/sequence/sequence_model.h"
#include "qkv/train/run/image_run.h"
#include "qkv/train/run/initial_model.h"
#include "qkv/train/run/pair_model.h"

namespace qkv::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kResult = "result.json";

std::string RunName(const PlannedRun& run) {
  return fmt::format("{}, {}, seed {}", run.data->name, run.arm->name, run.seed);
}

// False if it was stopped. Does not repeat messages in `said`. Throws Error as train::Train.
bool TrainOne(const PlannedRun& run, TrainProgress& progress, train::RunFolder& folder, std::set<std::string>* said) {
  const fs::path file = run.folder / train::RunFolder::kConfig;
  if (fs::exists(file)) train::RequireSameRun(train::Resolve(train::ReadRunSettings(file)), run.config);
  const std::optional<train::TrainingData>& images = run.data->images;
  const std::string& maps = run.config.maps;
  if (images && !maps.empty() && maps != "0") {
    progress.DrawMaps(ChooseMapImages(maps, *images, 0));  // the same images for all runs
  }
  train::Observer observer = progress.Observer();
  observer.note = [&](const std::string& note) {
    if (said->insert(note).second) progress.Say(note);
  };
  const train::Outcome outcome =
      images ? train::Train(run.config, *images, folder, observer)
      : run.data->pairs
          ? train::Train(run.config, *run.data->pairs, folder, observer)
          : train::Train(run.config, train::SequencesForTraining(run.data->given, run.config), folder, observer);
  if (outcome.reason == train::Outcome::Reason::kStopped) return false;
  WriteFile(run.folder / kResult, lab::ReadRun(run.folder, *run.data, run.arm->name, run.seed).ToJson());
  return true;
}

// Runs in the child process after fork(). Never returns.
[[noreturn]] void RunWorker(const RunQueue& queue, pid_t parent) {
  ::setpgid(0, 0);  // the parent receives the terminal's signals and sends them on
  StopOnSignals(/*says=*/false);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  int code = ::getppid() == parent ? 0 : 1;
  try {
    if (code == 0) TrainRuns(queue);
  } catch (const std::exception& error) {
    PrintMessage("qkv: {}\n", EscapedText{error.what()});
    code = 1;
  }
  std::fflush(nullptr);
  ::_exit(code);
}

// Images, sequences or pairs of one inference pass.
constexpr int64_t kTogether = 32;

// The model of an arm, for timing.
class Contestant {
 public:
  virtual ~Contestant() = default;
  virtual void Train() = 0;             // one step on a batch
  virtual void Infer() = 0;             // on several inputs
  virtual int64_t trained() const = 0;  // inputs of a step
  virtual int64_t inferred() const { return kTogether; }
};

class OnImages : public Contestant {
 public:
  explicit OnImages(const PlannedRun& run)
      : batch_(run.config.batch),
        model_(model::Model::Load(run.folder / "last")),
        step_(model_.config(), run.config.batch, run.config.precision == "bf16"),
        pixels_(RandomInputs(model_.config(), kTogether)),
        logits_({kTogether, model_.config().outputs()}) {}
  void Train() override { step_.Run(); }
  void Infer() override { model_.Forward(pixels_, workspace_, {.logits = logits_}); }
  int64_t trained() const override { return batch_; }

 private:
  int64_t batch_;
  model::Model model_;
  TimedStep<train::Network> step_;
  Tensor<float> pixels_, logits_;
  model::Workspace<float> workspace_;
};

class OnSequences : public Contestant {
 public:
  explicit OnSequences(const PlannedRun& run)
      : batch_(run.config.batch),
        model_(model::SequenceModel<float>::Load(run.folder / "last")),
        step_(model_.config(), run.config.batch, run.config.precision == "bf16"),
        tokens_(RandomInputs(model_.config(), kTogether)),
        logits_({kTogether, model_.config().length, model_.config().outputs}) {}
  void Train() override { step_.Run(); }
  void Infer() override { model_.Logits(tokens_.view(), arena_, logits_); }
  int64_t trained() const override { return batch_; }

 private:
  int64_t batch_;
  model::SequenceModel<float> model_;
  TimedStep<train::SequenceNetwork> step_;
  Tensor<int32_t> tokens_;
  Tensor<float> logits_;
  Arena arena_;
};

// Times a step on the first batch of the training, and answers of equally many tokens to the first validation lines.
class OnPairs : public Contestant {
 public:
  explicit OnPairs(const PlannedRun& run)
      : data_(*run.data->pairs),
        checkpoint_(model::TextCheckpoint::Open(run.folder / "last")),
        model_(checkpoint_),
        network_(train::PairOfCheckpoint(checkpoint_)),
        optimizer_(network_.layout(), {}),
        stepper_(network_, optimizer_, {.bf16 = run.config.precision == "bf16"}),
        weights_({network_.layout().size()}) {
    train::CopyPairWeights(checkpoint_, network_, weights_);
    const train::PairBatches batches(data_.train, run.config.batch, static_cast<uint64_t>(run.config.seed));
    train::FillPairBatch(data_.train, batches.Lines(0), data_.tokenizer.tokens, &batch_);
    const train::TokenTexts& texts = data_.validation.source;
    for (int64_t i = 0; i < std::min(kTogether, texts.size()); ++i)
      sources_.emplace_back(texts[i].begin(), texts[i].end());
    settings_.max_tokens = settings_.min_tokens =
        std::min<int64_t>(kTokens, std::max<int64_t>(1, model_.decoder().config().length - 1));
    settings_.ends = {data_.tokenizer.tokens.end};
    settings_.suppressed = {data_.tokenizer.tokens.padding};
  }
  void Train() override {
    stepper_.Add(weights_, {.inputs = batch_.input(), .labels = batch_.labels.span()});
    stepper_.Apply(1e-6, weights_);
  }
  void Infer() override { GenerateFromSources(model_, sources_, data_.tokenizer.tokens.start, settings_); }
  int64_t trained() const override { return batch_.size(); }
  int64_t inferred() const override { return std::ssize(sources_); }

 private:
  static constexpr int64_t kTokens = 16;

  const train::PairData& data_;
  model::TextCheckpoint checkpoint_;
  model::TextModel model_;
  train::PairNetwork<float> network_;
  train::Optimizer<float> optimizer_;
  train::Stepper<float, train::PairNetwork> stepper_;
  Tensor<float> weights_;
  train::PairBatch batch_;
  std::vector<std::vector<int32_t>> sources_;
  model::GenerationSettings settings_;
};

std::unique_ptr<Contestant> MakeContestant(const PlannedRun& run) {
  if (run.data->images) return std::make_unique<OnImages>(run);
  if (run.data->pairs) return std::make_unique<OnPairs>(run);
  return std::make_unique<OnSequences>(run);
}

}  // namespace

fs::path RunFolderPath(const fs::path& comparison, const lab::AblationData& data, const lab::Arm& arm, int64_t seed) {
  std::string name = fmt::format("{},{},seed={}", data.name, arm.name, seed);
  std::ranges::replace(name, ':', ',');
  return comparison / "runs" / name;
}

bool HasEnded(const PlannedRun& run) { return fs::exists(run.folder / kResult); }

std::vector<lab::RunResult> EndedRuns(const std::vector<PlannedRun>& runs) {
  std::vector<lab::RunResult> results;
  for (const PlannedRun& run : runs) {
    const fs::path file = run.folder / kResult;
    if (!HasEnded(run)) continue;
    const lab::RunResult& result = results.emplace_back(lab::RunResult::FromJson(ReadFile(file), file.string()));
    Require(result.data == run.data->name && result.arm == run.arm->name && result.seed == run.seed,
            "{}: the result of {}, {}, seed {}, expected {}; remove the folder to train the run again", file.string(),
            result.data, result.arm, result.seed, RunName(run));
  }
  return results;
}

void TrainRuns(const RunQueue& queue) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  int64_t trained = 0;
  std::set<std::string> said;
  for (size_t i = 0; i < queue.runs.size() && StopSignal() == 0; ++i) {
    const PlannedRun& run = queue.runs[i];
    if (HasEnded(run)) continue;
    TrainProgress progress(run.folder, queue.quiet,
                           fmt::format("run {} of {} ({})", i + 1, queue.runs.size(), RunName(run)));
    try {
      fs::create_directories(run.folder.parent_path());
      train::RunFolder folder(run.folder, /*resume=*/true);
      if (HasEnded(run)) continue;  // another process has just finished it
      if (!TrainOne(run, progress, folder, &said)) break;
    } catch (const train::RunFolderBusy&) {
      continue;
    } catch (const std::exception& error) {
      std::string why = error.what();
      std::ranges::replace(why, '\n', ' ');
      progress.Say(fmt::format("{}: {}", RunName(run), why));
      continue;
    }
    ++trained;
    const std::vector<lab::RunResult> results = EndedRuns({run});
    const auto left =
        static_cast<double>(std::ranges::count_if(queue.runs, [](const auto& r) { return !HasEnded(r); }));
    const double each = std::chrono::duration<double>(Clock::now() - start).count() / static_cast<double>(trained);
    progress.Say(fmt::format(
        "{}: {:.2f} % right, loss {:.4f}{}; {} of {} runs have ended{}", RunName(run), 100 * results.at(0).top1,
        results.at(0).loss, std::isfinite(results.at(0).bleu) ? fmt::format(", BLEU {:.2f}", results.at(0).bleu) : "",
        queue.runs.size() - static_cast<size_t>(left), queue.runs.size(),
        left > 0 ? ", about " + Duration(each * left / static_cast<double>(queue.processes)) + " left" : ""));
    if (queue.ended) queue.ended();
  }
}

void TrainInProcesses(const RunQueue& queue) {
  const pid_t self = ::getpid();
  const int threads = std::max(1, NumThreads() / static_cast<int>(queue.processes));
  std::vector<pid_t> workers;
  std::fflush(nullptr);
  for (int64_t i = 0; i < queue.processes; ++i) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      SetNumThreads(threads);
      RunQueue own = queue;
      own.quiet = queue.quiet || i > 0;  // a terminal has room for one overwritten line
      RunWorker(own, self);
    }
    if (pid < 0) {
      PrintMessage("qkv: only {} of {} processes could be started\n", i, queue.processes);
      break;
    }
    workers.push_back(pid);
  }
  Require(!workers.empty(), "ablate: no process could be started");
  bool told = false;
  while (!workers.empty()) {
    if (StopSignal() != 0 && !told) {
      for (const pid_t pid : workers) ::kill(pid, SIGTERM);
      told = true;
    }
    std::erase_if(workers, [&](pid_t pid) {
      int status = 0;
      if (::waitpid(pid, &status, WNOHANG) == 0) return false;
      if (WIFSIGNALED(status)) {
        PrintMessage("qkv: a process was ended by signal {} ({})\n", WTERMSIG(status), ::strsignal(WTERMSIG(status)));
      }
      return true;
    });
    ::usleep(20'000);
  }
}

std::map<std::string, lab::Speed, std::less<>> MeasureSpeeds(const std::vector<PlannedRun>& runs) {
  constexpr double kSecondsEach = 0.5;
  const auto any = std::ranges::find_if(runs, HasEnded);
  if (any == runs.end()) return {};
  std::vector<const PlannedRun*> first;  // the first run of each arm
  for (const PlannedRun& run : runs) {
    if (run.data != any->data || !HasEnded(run)) continue;
    if (std::ranges::find(first, run.arm, &PlannedRun::arm) == first.end()) first.push_back(&run);
  }
  std::vector<std::unique_ptr<Contestant>> contestants;
  for (const PlannedRun* run : first) contestants.push_back(MakeContestant(*run));
  const double seconds = kSecondsEach * static_cast<double>(first.size());
  const std::vector<Times> answering = Interleave(first.size(), seconds, [&](size_t i) { contestants[i]->Infer(); });
  const std::vector<Times> training = Interleave(first.size(), seconds, [&](size_t i) { contestants[i]->Train(); });
  std::map<std::string, lab::Speed, std::less<>> speeds;
  for (size_t i = 0; i < first.size(); ++i) {
    speeds[first[i]->arm->name] = {
        .training = 1e3 * static_cast<double>(contestants[i]->trained()) / training[i].best(),
        .inference = 1e3 * static_cast<double>(contestants[i]->inferred()) / answering[i].best()};
  }
  return speeds;
}

}  // namespace qkv::cli
