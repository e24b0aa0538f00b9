#include "cli/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "cli/output.h"

namespace qkv::cli {
namespace {

constexpr int kBarWidth = 30;
// Ten times a second looks smooth and costs nothing.
constexpr std::chrono::milliseconds kBetweenDraws{100};

// The visible line, perhaps on the same terminal as stdout.
Progress* shown_progress = nullptr;

}  // namespace

Progress::Progress(int64_t total, std::string unit, bool quiet)
    : total_(total), unit_(std::move(unit)), shown_(!quiet && total > 1 && CanOverwriteLines()) {
  if (shown_) shown_progress = this;
}

Progress::~Progress() {
  Clear();
  if (shown_progress == this) shown_progress = nullptr;
}

void Progress::ClearShown() {
  if (shown_progress != nullptr) shown_progress->Clear();
}

void Progress::Clear() {
  if (!std::exchange(visible_, false)) return;
  PrintMessage("\r\x1b[K");
  std::fflush(stderr);
}

void Progress::Advance(int64_t count) {
  done_ += count;
  if (shown_ && Clock::now() - drawn_ >= kBetweenDraws) Draw();
}

void Progress::Draw() {
  drawn_ = Clock::now();
  visible_ = true;
  std::fflush(stdout);  // before the line, not into it
  const double seconds = std::chrono::duration<double>(drawn_ - start_).count();
  const double rate = seconds > 0 ? static_cast<double>(done_) / seconds : 0;
  const double left = rate > 0 ? static_cast<double>(total_ - done_) / rate : 0;
  const auto filled = static_cast<size_t>(std::clamp<int64_t>(done_ * kBarWidth / total_, 0, kBarWidth));
  PrintMessage("\r\x1b[K{}{} {}/{} {}  {:.1f}/s  {:.0f} s left", std::string(filled, '#'),
               std::string(kBarWidth - filled, '.'), done_, total_, unit_, rate, left);
  std::fflush(stderr);
}

}  // namespace qkv::cli
