#include "cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "cli/output.h"

namespace qkv::cli {
namespace {

constexpr int kBarWidth = 30;
// Ten times a second looks smooth and costs nothing.
constexpr std::chrono::milliseconds kBetweenDraws{100};

}  // namespace

Progress::Progress(int64_t total, std::string unit, bool quiet)
    : total_(total), unit_(std::move(unit)), shown_(!quiet && total > 1 && ::isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() { Clear(); }

void Progress::Clear() {
  if (shown_ && drawn_ != Clock::time_point{}) PrintMessage("\r\x1b[K");
}

void Progress::Advance(int64_t count) {
  done_ += count;
  if (shown_ && Clock::now() - drawn_ >= kBetweenDraws) Draw();
}

void Progress::Draw() {
  drawn_ = Clock::now();
  const double seconds = std::chrono::duration<double>(drawn_ - start_).count();
  const double rate = seconds > 0 ? static_cast<double>(done_) / seconds : 0;
  const double left = rate > 0 ? static_cast<double>(total_ - done_) / rate : 0;
  const auto filled = static_cast<size_t>(std::clamp<int64_t>(done_ * kBarWidth / total_, 0, kBarWidth));
  PrintMessage("\r\x1b[K{}{} {}/{} {}  {:.1f}/s  {:.0f} s left", std::string(filled, '#'),
               std::string(kBarWidth - filled, '.'), done_, total_, unit_, rate, left);
  std::fflush(stderr);
}

}  // namespace qkv::cli
