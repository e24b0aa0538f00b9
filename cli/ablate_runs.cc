#include "cli/ablate_runs.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <set>

#include "cli/bench.h"
#include "cli/bench_step.h"
#include "cli/train_teller.h"
#include "qkv/core/file.h"
#include "qkv/core/parallel.h"
#include "qkv/core/rng.h"
#include "qkv/train/run.h"

namespace qkv::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kResult = "result.json";

std::string NameOf(const PlannedRun& run) { return fmt::format("{}, seed {}", run.arm->name, run.seed); }

// False when it was stopped. What `said` holds is not said again. Throws Error as train::Train.
bool TrainOne(const PlannedRun& run, const train::TrainingData& data, TrainTeller& teller, train::RunFolder& folder,
              std::set<std::string>* said) {
  const fs::path file = run.folder / train::RunFolder::kConfig;
  if (fs::exists(file)) train::RequireSameRun(train::Resolve(train::ReadSettings(file)), run.config);
  WriteFile(file, train::ToYaml(run.config));
  const std::string& maps = run.config.maps;
  if (!maps.empty() && maps != "0") teller.DrawMaps(ChooseMapImages(maps, data, 0));  // the same images for all runs
  train::Observer observer = teller.Observer();
  observer.note = [&](const std::string& note) {
    if (said->insert(note).second) teller.Say(note);
  };
  if (train::Train(run.config, data, folder, observer).why == train::Outcome::Why::kStopped) return false;
  WriteFile(run.folder / kResult, lab::ReadRun(run.folder, run.data, run.arm->name, run.seed).ToJson());
  return true;
}

// What follows the fork, in the process that it has made. Never returns.
[[noreturn]] void Work(const RunQueue& queue, pid_t parent) {
  ::setpgid(0, 0);  // the terminal's signals are the parent's, which sends them on
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  int code = ::getppid() == parent ? 0 : 1;
  try {
    if (code == 0) TrainRuns(queue);
  } catch (const std::exception& error) {
    fmt::print(stderr, "qkv: {}\n", error.what());
    code = 1;
  }
  std::fflush(nullptr);
  ::_exit(code);
}

}  // namespace

fs::path FolderOfRun(const fs::path& comparison, const lab::Arm& arm, int64_t seed) {
  std::string name = arm.name;
  std::ranges::replace(name, ':', ',');
  return comparison / "runs" / fmt::format("{},seed={}", name, seed);
}

bool HasEnded(const PlannedRun& run) { return fs::exists(run.folder / kResult); }

std::vector<lab::RunResult> EndedRuns(const std::vector<PlannedRun>& runs) {
  std::vector<lab::RunResult> results;
  for (const PlannedRun& run : runs) {
    const fs::path file = run.folder / kResult;
    if (HasEnded(run)) results.push_back(lab::RunResult::FromJson(ReadFile(file), file.string()));
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
    TrainTeller teller(run.folder, queue.quiet,
                       fmt::format("run {} of {} ({})", i + 1, queue.runs.size(), NameOf(run)));
    try {
      fs::create_directories(run.folder.parent_path());
      train::RunFolder folder(run.folder, /*resume=*/true);
      if (HasEnded(run)) continue;  // another process has just ended it
      if (!TrainOne(run, *queue.data, teller, folder, &said)) break;
    } catch (const train::RunFolderBusy&) {
      continue;
    } catch (const std::exception& error) {
      teller.Say(fmt::format("{}: {}", NameOf(run), error.what()));
      continue;
    }
    ++trained;
    const std::vector<lab::RunResult> results = EndedRuns({run});
    const auto left =
        static_cast<double>(std::ranges::count_if(queue.runs, [](const auto& r) { return !HasEnded(r); }));
    const double each = std::chrono::duration<double>(Clock::now() - start).count() / static_cast<double>(trained);
    teller.Say(fmt::format(
        "{}: {:.2f} % right, loss {:.4f}; {} of {} runs have ended{}", NameOf(run), 100 * results.at(0).top1,
        results.at(0).loss, queue.runs.size() - static_cast<size_t>(left), queue.runs.size(),
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
      own.quiet = queue.quiet || i > 0;  // a terminal has room for one line that is written over
      Work(own, self);
    }
    if (pid < 0) {
      fmt::print(stderr, "qkv: only {} of {} processes could be started\n", i, queue.processes);
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
        fmt::print(stderr, "qkv: a process was ended by signal {} ({})\n", WTERMSIG(status),
                   ::strsignal(WTERMSIG(status)));
      }
      return true;
    });
    ::usleep(20'000);
  }
}

std::map<std::string, lab::Speed, std::less<>> MeasureSpeeds(const std::vector<PlannedRun>& runs) {
  constexpr int64_t kImages = 32;  // answered together
  constexpr double kSecondsEach = 0.5;
  std::vector<std::string> names;
  std::vector<model::Model> models;
  std::vector<std::unique_ptr<TimedStep>> steps;
  int64_t batch = 0;
  for (const PlannedRun& run : runs) {
    if (!HasEnded(run) || std::ranges::find(names, run.arm->name) != names.end()) continue;
    names.push_back(run.arm->name);
    models.push_back(model::Model::Load(run.folder / "last"));
    batch = run.config.batch;
    steps.push_back(std::make_unique<TimedStep>(models.back().config(), batch, run.config.precision == "bf16"));
  }
  if (models.empty()) return {};
  Rng rng(1);
  std::vector<Tensor<float>> pixels, logits;
  for (const model::Model& model : models) {
    const model::VitConfig& c = model.config();
    pixels.emplace_back(Shape{kImages, c.channels, c.image_height, c.image_width});
    logits.emplace_back(Shape{kImages, c.outputs()});
    for (float& x : pixels.back().span()) x = static_cast<float>(rng.Normal());
  }
  std::vector<model::Workspace<float>> workspaces(models.size());
  const double seconds = kSecondsEach * static_cast<double>(models.size());
  const std::vector<Times> answering = Interleave(
      models.size(), seconds, [&](size_t i) { models[i].Forward(pixels[i], workspaces[i], {.logits = logits[i]}); });
  const std::vector<Times> training = Interleave(models.size(), seconds, [&](size_t i) { steps[i]->Run(); });
  std::map<std::string, lab::Speed, std::less<>> speeds;
  for (size_t i = 0; i < names.size(); ++i) {
    speeds[names[i]] = {.training = 1e3 * static_cast<double>(batch) / training[i].best(),
                        .inference = 1e3 * static_cast<double>(kImages) / answering[i].best()};
  }
  return speeds;
}

}  // namespace qkv::cli
