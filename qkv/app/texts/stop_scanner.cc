#include "qkv/app/texts/stop_scanner.h"

#include <algorithm>

namespace qkv::app {

std::string StopScanner::Add(std::string_view piece) {
  if (stopped_) return "";
  pending_ += piece;
  size_t first = std::string::npos, kept = 0;
  for (const std::string& stop : stops_) {
    first = std::min(first, pending_.find(stop));
    for (size_t n = std::min(stop.size() - 1, pending_.size()); n > kept; --n) {
      if (std::string_view(pending_).ends_with(std::string_view(stop).substr(0, n))) kept = n;
    }
  }
  stopped_ = first != std::string::npos;
  std::string shown = pending_.substr(0, stopped_ ? first : pending_.size() - kept);
  pending_.erase(0, stopped_ ? pending_.size() : shown.size());
  return shown;
}

std::string StopScanner::Rest() { return std::exchange(pending_, ""); }

}  // namespace qkv::app
