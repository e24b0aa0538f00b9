// Loops over pixels that can be given up.
#pragma once

#include <algorithm>
#include <cstdint>

#include "qkv/core/work.h"

namespace qkv::image {

/// Pixels between two calls of Spend: some 10 µs.
inline constexpr int64_t kRunPixels = int64_t{1} << 14;

/// Calls f(begin, end) for consecutive runs of [0, pixels), and Spend before each. Rows are no bound: one may hold a
/// hundred million pixels.
template <typename F>
void ForEachRun(int64_t pixels, F&& f) {
  for (int64_t begin = 0; begin < pixels; begin += kRunPixels) {
    const int64_t end = std::min(pixels, begin + kRunPixels);
    Spend(end - begin);
    f(begin, end);
  }
}

}  // namespace qkv::image
