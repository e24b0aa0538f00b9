// How the tile kernels ask for memory while they compute.
#pragma once

#include <cstdint>

namespace qkv::simd::internal {

/// Cache lines that will be read soon; none where `begin` is null.
struct Lines {
  const char* begin = nullptr;
  int64_t count = 0;
};

/// `lines` cache lines from `begin` on (none when it is null), spread over `times` calls of Some().
class TilePrefetch {
 public:
  TilePrefetch() = default;
  TilePrefetch(const char* begin, int64_t lines, int64_t times) : next_(begin), end_(begin) {
    if (begin == nullptr || lines == 0 || times == 0) return;
    end_ += lines * kLine;
    step_ = (lines + times - 1) / times * kLine;
  }

  void Some() {
    asm("" : "+r"(next_));  // or GCC 12 copies the caller's loop for when nothing is left, and spills in the copy
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
