// Splits row-wise work on a matrix into ranges for threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "qkv/core/parallel.h"

namespace qkv::nn {

/// Elements per task: about 10 µs of work, enough to pay for handing it to another thread.
inline constexpr int64_t kElementsPerTask = 1 << 15;

/// Calls f(begin, end) for ranges of rows of D elements, of nearly equal size. More than one range means the same
/// number for each thread, so that a thread works on the rows of the products that it computed itself.
template <typename F>
void ForRowRanges(int64_t rows, int64_t D, F&& f) {
  const int64_t most = std::max<int64_t>(1, kElementsPerTask / std::max<int64_t>(1, D));
  const int64_t enough = (rows + most - 1) / most, threads = NumThreads();
  const int64_t ranges = enough <= 1 ? enough : std::min(rows, (enough + threads - 1) / threads * threads);
  ParallelFor(ranges, 1, [&](int64_t range, int64_t) { f(range * rows / ranges, (range + 1) * rows / ranges); });
}

/// Calls f(begin, end) for ranges of columns of `rows` elements, in whole cache lines. For sums over rows: splitting by
/// columns makes the sums independent of the number of threads.
template <typename F>
void ForColumnRanges(int64_t columns, int64_t rows, F&& f) {
  constexpr int64_t kLine = 16;
  const int64_t wanted = kElementsPerTask / std::max<int64_t>(1, rows);
  ParallelFor(columns, std::max<int64_t>(1, wanted / kLine) * kLine, f);
}

}  // namespace qkv::nn
