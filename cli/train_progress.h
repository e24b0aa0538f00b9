// Progress and signals of training, for `qkv train` and `qkv ablate`.
#pragma once

#include <chrono>
#include <string>

#include "qkv/train/run/image_run.h"

namespace qkv::cli {

/// From now on the first SIGINT, SIGTERM, SIGHUP (unless it is ignored, as under nohup) or SIGUSR1 requests training to
/// end after its step, with a message on stderr if `says`. A second signal of any of these kinds ends the process with
/// 128 + its number.
void StopOnSignals(bool says = true);
/// Signals end the process again, as before StopOnSignals.
void ExitOnSignals();
/// The signal that requested the end, or 0.
int StopSignal();

/// Quoted for a POSIX shell.
std::string Quoted(const std::string& word);
/// The command line of this process.
std::string CommandLine();
/// The same after `cd` to the folder in which it was started: a line that can be run again.
std::string CommandToRepeat();

/// "4 min 07 s"
std::string Duration(double seconds);

/// Prints on stderr: on a terminal one line that is overwritten, and a line for each evaluation.
class TrainProgress {
 public:
  /// quiet: no overwritten line. of_many: names this run among several; the line begins with it, and evaluations print
  /// no lines.
  explicit TrainProgress(bool quiet, std::string of_many = {});
  ~TrainProgress() { Clear(); }

  /// An observer that reports to this object, which must outlive it.
  train::Observer Observer();
  void Say(const std::string& text);

 private:
  using Clock = std::chrono::steady_clock;

  void Step(const train::StepReport& report);
  void Evaluation(const train::EvaluationReport& report);
  void OverwriteLine(const std::string& text);
  void Clear();

  const bool shown_;
  const std::string of_many_;
  Clock::time_point drawn_{};
  int64_t reports_ = 0;  // of steps
};

}  // namespace qkv::cli
