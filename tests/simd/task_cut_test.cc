// How a product is cut into tasks, for every number of threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "qkv/simd/gemm_task.h"

namespace qkv::simd {
namespace {

using internal::TaskCut;

TEST(TaskCut, EveryPanelOfEveryRowIsInOneTask) {
  for (const int64_t M : {1, 8, 27, 28, 56, 197, 240, 241, 1576}) {
    for (const int64_t panels : {1, 2, 3, 5, 6, 7, 12, 13, 24, 72, 96, 192}) {
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

TEST(TaskCut, TasksOfAThreadGetSmaller) {
  for (const int64_t panels : {6, 12, 24, 48, 192}) {
    const TaskCut cut(197, panels, 2);
    const int64_t each = cut.count() / 2;
    const auto size = [&](int64_t t) { return cut.at(t).panel_end - cut.at(t).panel_begin; };
    for (const int64_t thread : {0, 1}) {
      for (int64_t t = thread * each + 1; t < (thread + 1) * each; ++t) EXPECT_LE(size(t), size(t - 1) + 1) << panels;
      EXPECT_LE(size((thread + 1) * each - 1), (size(thread * each) + 6) / 7) << panels;
    }
  }
}

TEST(TaskCut, FewRowsShareColumns) {
  const TaskCut cut(1, 24, 4);
  EXPECT_EQ(cut.row_blocks, 1);
  EXPECT_GE(cut.count(), 4);
}

}  // namespace
}  // namespace qkv::simd
