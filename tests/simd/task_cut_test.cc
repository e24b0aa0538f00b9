// How a product is cut into tasks, for every number of threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "qkv/simd/gemm/gemm_task.h"

namespace qkv::simd {
namespace {

using internal::PanelCut;
using internal::TaskCut;

TEST(TaskCut, EveryPanelOfEveryRowIsInOneTask) {
  for (const int64_t M : {1, 8, 25, 26, 52, 197, 240, 241, 1576}) {
    for (const int64_t panels : {1, 2, 3, 4, 6, 7, 12, 15, 16, 18, 24, 72, 96, 192}) {
      for (int threads = 1; threads <= 64; ++threads) {
        const TaskCut cut(M, panels, threads);
        std::vector<int> tasks(static_cast<size_t>(M * panels));
        for (int64_t t = 0; t < cut.count(); ++t) {
          const TaskCut::Part part = cut.at(t);
          ASSERT_GT(part.rows, 0);
          ASSERT_LE(part.rows, std::min(cut.rows, TaskCut::kBlockRows));
          ASSERT_GT(part.panel_end, part.panel_begin);
          ASSERT_LE(part.panel_end - part.panel_begin, cut.panels);
          for (int64_t r = part.row; r < part.row + part.rows; ++r) {
            for (int64_t p = part.panel_begin; p < part.panel_end; ++p) ++tasks[static_cast<size_t>(r * panels + p)];
          }
        }
        for (const int count : tasks) ASSERT_EQ(count, 1) << M << " rows, " << panels << " panels, " << threads;
      }
    }
  }
}

TEST(TaskCut, ThreadsHaveRowsOfTheirOwn) {
  for (const int threads : {1, 2, 4, 7}) {
    const TaskCut cut(197, 24, threads);
    EXPECT_EQ(cut.row_blocks, threads);
    EXPECT_EQ(cut.count() % threads, 0);  // shares of equal size
  }
  EXPECT_EQ(TaskCut(1576, 72, 2).row_blocks % 2, 0);
}

TEST(PanelCut, EveryPanelIsInOnePieceAndLaterOnesAreSmaller) {
  for (const int64_t most : {8, 9, 19, 34, 240}) {
    for (int64_t panels = 1; panels <= 2000; ++panels) {
      const PanelCut cut = PanelCut::Tapered(panels, most);
      ASSERT_EQ(cut.at(0), 0);
      ASSERT_EQ(cut.at(cut.count()), panels);
      ASSERT_LE(cut.largest(), most);
      int64_t before = cut.largest();
      for (int64_t i = 0; i < cut.count(); ++i) {
        const int64_t piece = cut.at(i + 1) - cut.at(i);
        ASSERT_GE(piece, 1) << panels << " panels, at most " << most;
        ASSERT_LE(piece, cut.largest()) << panels << " panels, at most " << most;
        ASSERT_LE(piece, before + 1) << panels << " panels, at most " << most;
        before = piece;
      }
      // The last piece, which threads may have to wait for, is one of 64 parts of the tail.
      ASSERT_LE(before, (cut.largest() + 14) / 15) << panels << " panels, at most " << most;
    }
  }
}

TEST(SliceAfter, WalksThroughATaskAndToTheNext) {
  constexpr int64_t kBegin = 3, kEnd = 6, kDepth = 384, kK = 1000;
  std::vector<std::pair<int64_t, int64_t>> slices;
  internal::Slice slice{kBegin, 0};
  for (; slice.panel != kEnd; slice = internal::SliceAfter(slice, kBegin, kEnd, kDepth, kK)) {
    slices.emplace_back(slice.k, slice.panel);
    ASSERT_LE(slices.size(), 9u);
  }
  EXPECT_EQ(slice.k, 0);
  std::vector<std::pair<int64_t, int64_t>> all;
  for (const int64_t k : {0, 384, 768}) {
    for (int64_t panel = kBegin; panel < kEnd; ++panel) all.emplace_back(k, panel);
  }
  EXPECT_EQ(slices, all);
}

TEST(TaskCut, FewRowsShareColumns) {
  const TaskCut cut(1, 24, 4);
  EXPECT_EQ(cut.row_blocks, 1);
  EXPECT_GE(cut.count(), 4);
}

TEST(TaskCut, AThreadReadsTheSameWeightsAgainUntilItsLastRows) {
  const char weights[2] = {};
  const internal::CacheLines first_slice{weights, 1}, next{weights + 1, 1};
  for (const int threads : {1, 2, 4}) {
    const TaskCut cut(1576, 72, threads);
    ASSERT_EQ(cut.row_blocks % threads, 0);
    const int64_t share = cut.count() / threads, of_rows = cut.count() / cut.row_blocks;
    for (int64_t t = 0; t < cut.count(); ++t) {
      const bool last = t % share >= share - of_rows;
      EXPECT_EQ(cut.NextCacheLines(t, first_slice, next).begin, last ? next.begin : first_slice.begin)
          << t << " of " << threads;
    }
  }
  const TaskCut columns(1, 24, 2);  // where the second thread begins is not known
  for (int64_t t = 0; t < columns.count(); ++t) EXPECT_EQ(columns.NextCacheLines(t, first_slice, next).begin, nullptr);
}

}  // namespace
}  // namespace qkv::simd
