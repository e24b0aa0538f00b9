#include "cli/train_progress.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <utility>

#include "cli/output.h"

namespace qkv::cli {
namespace {

// Smooth enough for the eye.
constexpr std::chrono::milliseconds kBetweenLines{100};

// The estimate of the whole time is taken from this report of a step.
constexpr int64_t kFirstEstimate = 3;

volatile sig_atomic_t stop_signal = 0;
std::string_view stop_message;  // NOLINT: a signal handler can only read globals

constexpr std::array<int, 4> kSignals = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};

// Only async-signal-safe calls.
void OnSignal(int number) {
  if (stop_signal != 0) ::_exit(128 + number);
  stop_signal = number;
  const int error = errno;
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, stop_message.data(), stop_message.size());
  errno = error;
}

}  // namespace

void StopOnSignals(bool says) {
  static constexpr std::string_view kMessage =
      "\r\x1b[Kqkv: stopping: what was trained is saved after this step; a second signal ends at once\n";
  constexpr size_t kLine = 4;  // length of the sequence that clears the overwritten line
  stop_message = !says ? std::string_view() : CanOverwriteLines() ? kMessage : kMessage.substr(kLine);
  struct sigaction action {};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESTART;
  for (const int number : kSignals) {
    struct sigaction before {};
    // nohup ignores it, so that the process outlives its terminal.
    const bool ignored = number == SIGHUP && ::sigaction(number, nullptr, &before) == 0 && before.sa_handler == SIG_IGN;
    if (!ignored) ::sigaction(number, &action, nullptr);
  }
}

void ExitOnSignals() {
  for (const int number : kSignals) {
    struct sigaction now {};
    if (::sigaction(number, nullptr, &now) == 0 && now.sa_handler == OnSignal) ::signal(number, SIG_DFL);
  }
}

int StopSignal() { return stop_signal; }

std::string Quoted(const std::string& word) {
  if (!word.empty() && word.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                              "_-+=./,:@%") == word.npos) {
    return word;
  }
  std::string quoted = "'";
  for (const char letter : word) quoted += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return quoted + "'";
}

std::string CommandLine() {
  std::ifstream arguments("/proc/self/cmdline", std::ios::binary);
  std::string line;
  for (std::string word; std::getline(arguments, word, '\0');) {
    if (!line.empty()) line += ' ';
    line += Quoted(word);
  }
  return line;
}

std::string CommandToRepeat() {
  return fmt::format("cd {} && {}\n", Quoted(std::filesystem::current_path().string()), CommandLine());
}

std::string Duration(double seconds) {
  const auto whole = static_cast<int64_t>(seconds + 0.5);
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
}

TrainProgress::TrainProgress(bool quiet, std::string of_many)
    : shown_(!quiet && CanOverwriteLines()), of_many_(of_many.empty() ? of_many : of_many + "  ") {}

train::Observer TrainProgress::Observer() {
  train::Observer observer;
  observer.note = [this](const std::string& note) { Say(note); };
  observer.reading = [this](const char* what, int64_t done, int64_t total) {
    OverwriteLine(fmt::format("{}reading {}: {}/{} images", of_many_, what, done, total));
  };
  observer.step = [this](const train::StepReport& report) { Step(report); };
  observer.evaluation = [this](const train::EvaluationReport& report) { Evaluation(report); };
  observer.stop = [] { return stop_signal != 0; };
  return observer;
}

void TrainProgress::Say(const std::string& text) {
  Clear();
  PrintMessage("qkv: {}\n", text);
}

void TrainProgress::Step(const train::StepReport& r) {
  // The first step is slower than the others: memory is touched for the first time.
  if (++reports_ == kFirstEstimate && of_many_.empty()) {
    Say(fmt::format("{} steps in all, about {} left at {:.0f} {}/s", r.steps, Duration(r.seconds_left),
                    r.rows_per_second, r.unit));
  }
  const std::string total = r.steps > 0 ? fmt::format("/{}", r.steps) : "";
  const std::string left = r.steps > 0 ? "  " + Duration(r.seconds_left) + " left" : "";
  OverwriteLine(fmt::format("{}epoch {}  step {}{}  loss {:.4f}  accuracy {:.1f} %  {:.0f} {}/s{}", of_many_, r.epoch,
                            r.step, total, r.loss, 100 * r.accuracy, r.rows_per_second, r.unit, left));
}

void TrainProgress::Evaluation(const train::EvaluationReport& r) {
  if (!of_many_.empty()) return;
  Clear();
  std::string more;
  for (const auto& [name, value] : r.more) {
    if (name == "bleu") more = fmt::format(", BLEU {:.2f}", value);
  }
  PrintMessage("epoch {:>3}  training: loss {:.4f}, {:.2f} %  validation: loss {:.4f}, {:.2f} %{}{}\n", r.epoch,
               r.train_loss, 100 * r.train_accuracy, r.loss, 100 * r.top1, more, r.best ? "  best" : "");
}

void TrainProgress::OverwriteLine(const std::string& text) {
  if (!shown_ || Clock::now() - drawn_ < kBetweenLines) return;
  drawn_ = Clock::now();
  PrintMessage("\r\x1b[K{}", text);
  std::fflush(stderr);
}

void TrainProgress::Clear() {
  if (shown_ && drawn_ != Clock::time_point{}) PrintMessage("\r\x1b[K");
}

}  // namespace qkv::cli
