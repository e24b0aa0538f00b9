#include "qkv/core/memory.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <fstream>
#include <limits>

#include "qkv/core/error.h"

namespace qkv {
namespace {

std::atomic<int64_t> limit{0};  // 0: not set

int64_t MachineMemory() {
  const int64_t pages = ::sysconf(_SC_PHYS_PAGES), page = ::sysconf(_SC_PAGESIZE);
  int64_t bytes = pages > 0 && page > 0 ? pages * page : std::numeric_limits<int64_t>::max();
  // Control groups, of version 2 and 1, as a container sees its own.
  for (const char* file : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    int64_t group = 0;
    if (std::ifstream(file) >> group && group > 0) bytes = std::min(bytes, group);  // "max" is no number
  }
  return bytes;
}

}  // namespace

int64_t MemoryLimit() {
  static const int64_t half = MachineMemory() / 2;
  const int64_t set = limit.load();
  return set > 0 ? set : half;
}

void SetMemoryLimit(int64_t bytes) {
  Require(bytes >= 1, "memory: a limit of {} bytes, expected at least 1", bytes);
  limit.store(bytes);
}

void RequireMemory(double bytes, std::string_view what) {
  const auto most = static_cast<double>(MemoryLimit());
  Require(bytes <= most, "{} would take about {}, and at most {} may be used; --max-memory sets another limit", what,
          FormatBytes(bytes), FormatBytes(most));
}

std::string FormatBytes(double bytes) {
  if (!std::isfinite(bytes)) return "more memory than there is";
  for (const auto& [unit, name] : {std::pair{1e12, "TB"}, std::pair{1e9, "GB"}, std::pair{1e6, "MB"}}) {
    if (bytes >= unit) return fmt::format("{:.{}f} {}", bytes / unit, bytes < 10 * unit ? 1 : 0, name);
  }
  if (bytes < 1e3) return fmt::format("{:.0f} bytes", bytes);
  return fmt::format("{:.0f} kB", bytes / 1e3);
}

}  // namespace qkv
