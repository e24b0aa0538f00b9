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
#include <optional>

#include "cli/output.h"
#include "cli/train_progress.h"
#include "qkv/core/parallel.h"
#include "qkv/lab/comparison.h"

namespace qkv::cli {
namespace {

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
  const size_t planned = queue.runs.size();
  int64_t trained = 0;
  std::optional<TrainProgress> progress;  // of the run that is trained
  lab::RunsObserver observer;
  observer.stop = [] { return StopSignal() != 0; };
  observer.run = [&](size_t i) {
    progress.emplace(queue.quiet, fmt::format("run {} of {} ({})", i + 1, planned, lab::RunName(queue.runs[i])));
    return progress->Observer();
  };
  observer.failed = [&](size_t i, const std::string& why) {
    progress->Say(fmt::format("{}: {}", lab::RunName(queue.runs[i]), why));
  };
  observer.ended = [&](size_t i, const lab::RunResult& result) {
    ++trained;
    const auto left =
        static_cast<double>(std::ranges::count_if(queue.runs, [](const auto& r) { return !lab::HasEnded(r); }));
    const double each = std::chrono::duration<double>(Clock::now() - start).count() / static_cast<double>(trained);
    progress->Say(fmt::format(
        "{}: {:.2f} % right, loss {:.4f}{}; {} of {} runs have ended{}", lab::RunName(queue.runs[i]), 100 * result.top1,
        result.loss, std::isfinite(result.bleu) ? fmt::format(", BLEU {:.2f}", result.bleu) : "",
        planned - static_cast<size_t>(left), planned,
        left > 0 ? ", about " + Duration(each * left / static_cast<double>(queue.processes)) + " left" : ""));
    if (queue.ended) queue.ended();
  };
  lab::TrainRuns(queue.runs, observer);
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
