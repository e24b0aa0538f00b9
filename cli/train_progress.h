// What is said while a model is trained, and how it is asked to stop: what `qkv train` and `qkv ablate` share.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include "cli/train_maps.h"
#include "qkv/train/run/image_run.h"

namespace qkv::cli {

/// From now on the first SIGINT, SIGTERM, SIGHUP (unless it is ignored, as nohup has it) or SIGUSR1 asks training to
/// end after its step, and says so on stderr at once if `says`; a second one, of whichever kind, ends the process with
/// 128 + its number.
void StopOnSignals(bool says = true);
/// Signals end the process again as if StopOnSignals had not been called.
void EndOnSignals();
/// The signal that asked, or 0.
int StopSignal();

/// As a POSIX shell reads it.
std::string Quoted(const std::string& word);
/// The command that this process was started by.
std::string CommandLine();
/// The same with the folder it was started in, a line to be run again.
std::string CommandToRepeat();

/// "4 min 07 s"
std::string Duration(double seconds);

/// Tells stderr: on a terminal a line that is written over, a line that stays for each evaluation. Draws the curves.
class TrainProgress {
 public:
  /// folder: of the run. quiet: no line that is written over. of_many: what run it is of several, in a few words, which
  /// the line begins with; its evaluations get no lines then.
  TrainProgress(const std::filesystem::path& folder, bool quiet, std::string of_many = {});
  ~TrainProgress() { Clear(); }

  /// Attention maps of these images, in the run's folder, after each evaluation. Before Observer.
  void DrawMaps(MapImages images);
  /// Reports to this object, which must outlive it.
  train::Observer Observer();
  void Say(const std::string& text);

 private:
  using Clock = std::chrono::steady_clock;

  void Step(const train::StepReport& report);
  void Evaluation(const train::EvaluationReport& report);
  void WriteOver(const std::string& text);
  void Clear();

  const std::filesystem::path folder_;
  const bool shown_;
  const std::string of_many_;
  std::optional<TrainMaps> maps_;
  Clock::time_point drawn_{};
};

}  // namespace qkv::cli
