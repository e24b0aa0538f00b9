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
#include <utility>

#include "cli/output.h"
#include "cli/train_progress.h"
#include "qkv/app/training/run_pictures.h"
#include "qkv/core/file.h"
#include "qkv/core/parallel.h"
#include "qkv/train/run/image_run.h"
#include "qkv/train/run/initial_model.h"
#include "qkv/train/run/pair_model.h"

namespace qkv::cli {
namespace {

namespace fs = std::filesystem;

// False if it was stopped. Does not repeat messages in `said`. Throws Error as train::Train.
bool TrainOne(const lab::PlannedRun& run, TrainProgress& progress, train::RunFolder& folder,
              std::set<std::string>* said) {
  const fs::path file = run.folder / train::RunFolder::kConfig;
  if (fs::exists(file)) train::RequireSameRun(train::Resolve(train::ReadRunSettings(file)), run.config);
  const std::optional<train::TrainingData>& images = run.data->images;
  train::Observer observer = progress.Observer();
  observer.note = [&](const std::string& note) {
    if (said->insert(note).second) progress.Say(note);
  };
  std::optional<app::MapImages> maps;
  if (images) maps = app::MapImagesOf(run.config, *images, /*seed=*/0, observer.note);  // the same for all runs
  observer = app::WithPictures(std::move(observer), run.folder, std::move(maps));
  const train::Outcome outcome =
      images ? train::Train(run.config, *images, folder, observer)
      : run.data->pairs
          ? train::Train(run.config, *run.data->pairs, folder, observer)
          : train::Train(run.config, train::SequencesForTraining(run.data->given, run.config), folder, observer);
  if (outcome.reason == train::Outcome::Reason::kStopped) return false;
  WriteFile(run.folder / lab::kResult, lab::ReadRun(run.folder, *run.data, run.arm->name, run.seed).ToJson());
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

}  // namespace

void TrainRuns(const RunQueue& queue) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  int64_t trained = 0;
  std::set<std::string> said;
  for (size_t i = 0; i < queue.runs.size() && StopSignal() == 0; ++i) {
    const lab::PlannedRun& run = queue.runs[i];
    if (lab::HasEnded(run)) continue;
    TrainProgress progress(queue.quiet, fmt::format("run {} of {} ({})", i + 1, queue.runs.size(), lab::RunName(run)));
    try {
      fs::create_directories(run.folder.parent_path());
      train::RunFolder folder(run.folder, /*resume=*/true);
      if (lab::HasEnded(run)) continue;  // another process has just finished it
      if (!TrainOne(run, progress, folder, &said)) break;
    } catch (const train::RunFolderBusy&) {
      continue;
    } catch (const std::exception& error) {
      std::string why = error.what();
      std::ranges::replace(why, '\n', ' ');
      progress.Say(fmt::format("{}: {}", lab::RunName(run), why));
      continue;
    }
    ++trained;
    const std::vector<lab::RunResult> results = lab::EndedRuns({run});
    const auto left =
        static_cast<double>(std::ranges::count_if(queue.runs, [](const auto& r) { return !lab::HasEnded(r); }));
    const double each = std::chrono::duration<double>(Clock::now() - start).count() / static_cast<double>(trained);
    progress.Say(fmt::format(
        "{}: {:.2f} % right, loss {:.4f}{}; {} of {} runs have ended{}", lab::RunName(run), 100 * results.at(0).top1,
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

}  // namespace qkv::cli
