#include "qkv/lab/claims/patterns.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "qkv/algebra/shared.h"
#include "qkv/core/error.h"

namespace qkv::lab {
namespace {

Tensor<double> Gram(const Tensor<double>& q) {
  const int64_t N = q.dim(0);
  Tensor<double> S({N, N});
  for (int64_t i = 0; i < N; ++i) {
    for (int64_t j = 0; j < N; ++j) {
      for (int64_t e = 0; e < q.dim(1); ++e) S[i * N + j] += q[i * q.dim(1) + e] * q[j * q.dim(1) + e];
    }
  }
  return S;
}

TEST(Patterns, ThoseWithoutACircleAreCayleysForests) {
  for (const auto& [N, patterns, forests] :
       {std::tuple{1, 1, 1}, {2, 4, 3}, {3, 27, 16}, {4, 256, 125}, {5, 3125, 1296}}) {
    const auto all = AllPatterns(N);
    EXPECT_EQ(all.size(), static_cast<size_t>(patterns));
    EXPECT_EQ(std::ranges::count_if(all, [](const Pattern& p) { return LongestCycle(p) == 1; }), forests);
  }
}

TEST(Patterns, EveryForestIsMadeBySharedVectorsAndNoOther) {
  for (const Pattern& pattern : AllPatterns(5)) {
    if (LongestCycle(pattern) > 1) {
      EXPECT_THROW(SharedVectorsFor(pattern), Error);
      continue;
    }
    const Tensor<double> S = Gram(SharedVectorsFor(pattern));
    EXPECT_EQ(FindPattern(S), pattern);
    EXPECT_LE(algebra::PairExcess(S), 1e-15);
  }
}

TEST(Patterns, SymmetricScoresMakeCirclesOfTwoToo) {
  for (const Pattern& pattern : AllPatterns(4)) {
    if (LongestCycle(pattern) > 2) {
      EXPECT_THROW(SymmetricScoresFor(pattern), Error);
    } else {
      EXPECT_EQ(FindPattern(SymmetricScoresFor(pattern)), pattern);
    }
  }
}

TEST(Patterns, TwoForestsCoverAnyPattern) {
  for (const Pattern& pattern : AllPatterns(5)) {
    const auto [first, second] = SplitIntoForests(pattern);
    EXPECT_EQ(LongestCycle(first), 1);
    EXPECT_EQ(LongestCycle(second), 1);
    for (size_t i = 0; i < pattern.size(); ++i) EXPECT_TRUE(first[i] == pattern[i] || second[i] == pattern[i]);
  }
}

TEST(Patterns, ATieIsNone) {
  Tensor<double> scores({2, 2});
  scores[2] = 1;
  EXPECT_EQ(FindPattern(scores), (Pattern{-1, 0}));
  EXPECT_EQ(LongestCycle({1, 2, 0, 0}), 3);
}

}  // namespace
}  // namespace qkv::lab
