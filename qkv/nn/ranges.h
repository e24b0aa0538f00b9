// How row-wise work on a matrix is shared out to the threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "qkv/core/parallel.h"

namespace qkv::nn {

/// Elements a task: enough work (some 10 µs) to pay for handing it to another thread.
inline constexpr int64_t kElementsPerTask = 1 << 15;

/// f(begin, end) for ranges of rows of D elements, as even as can be, and, where there is more than one, as many for
/// each thread: it meets the rows that it has of products.
template <typename F>
void ForRowRanges(int64_t rows, int64_t D, F&& f) {
  const int64_t most = std::max<int64_t>(1, kElementsPerTask / std::max<int64_t>(1, D));
  const int64_t enough = (rows + most - 1) / most, threads = NumThreads();
  const int64_t ranges = enough <= 1 ? enough : std::min(rows, (enough + threads - 1) / threads * threads);
  ParallelFor(ranges, 1, [&](int64_t range, int64_t) { f(range * rows / ranges, (range + 1) * rows / ranges); });
}

/// f(begin, end) for ranges of columns of `rows` elements, whole cache lines: where rows are summed, threads share out
/// the columns, so that no sum depends on how many threads there are.
template <typename F>
void ForColumnRanges(int64_t columns, int64_t rows, F&& f) {
  constexpr int64_t kLine = 16;
  const int64_t wanted = kElementsPerTask / std::max<int64_t>(1, rows);
  ParallelFor(columns, std::max<int64_t>(1, wanted / kLine) * kLine, f);
}

}  // namespace qkv::nn
