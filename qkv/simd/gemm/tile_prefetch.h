// Prefetching by the tile kernels while they compute.
#pragma once

#include <cstdint>

namespace qkv::simd::internal {

/// Cache lines that will be read soon; none if `begin` is null.
struct CacheLines {
  const char* begin = nullptr;
  int64_t count = 0;
};

/// Prefetches `lines`, spread over `times` calls of PrefetchShare().
class TilePrefetch {
 public:
  TilePrefetch() = default;
  TilePrefetch(CacheLines lines, int64_t times) : next_(lines.begin), end_(lines.begin) {
    if (lines.begin == nullptr || lines.count == 0 || times == 0) return;
    end_ += lines.count * kLine;
    step_ = (lines.count + times - 1) / times * kLine;
  }

  void PrefetchShare() {
    // Otherwise GCC 12 duplicates the caller's loop for the case without lines, and spills in the copy.
    asm("" : "+r"(next_));
    for (const char* until = next_ + step_; next_ < until && next_ < end_; next_ += kLine) {
      __builtin_prefetch(next_, 0, 2);
    }
  }

 private:
  static constexpr int64_t kLine = 64;
  const char *next_ = nullptr, *end_ = nullptr;
  int64_t step_ = 0;
};

}  // namespace qkv::simd::internal
