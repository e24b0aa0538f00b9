// Groups of similar vectors against a plain comparison of all pairs.
#include "qkv/app/vectors/similar_groups.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "tests/support/errors.h"
#include "tests/support/sampler.h"

namespace qkv::app {
namespace {

constexpr int64_t kWidth = 24;

double Cosine(const float* x, const float* y) {
  const double dot = std::inner_product(x, x + kWidth, y, 0.0), xx = std::inner_product(x, x + kWidth, x, 0.0),
               yy = std::inner_product(y, y + kWidth, y, 0.0);
  return dot / std::sqrt(xx * yy);
}

// Sets of rows that chains of pairs connect, those of one row left out.
std::set<std::set<int64_t>> Reference(View<const float> vectors, double least) {
  const int64_t count = vectors.dim(0);
  std::vector<int64_t> set(static_cast<size_t>(count));
  std::iota(set.begin(), set.end(), 0);
  for (int64_t a = 0; a < count; ++a) {
    for (int64_t b = 0; b < a; ++b) {
      if (Cosine(vectors.row(a), vectors.row(b)) < least) continue;
      const int64_t from = set[static_cast<size_t>(a)], to = set[static_cast<size_t>(b)];
      std::ranges::replace(set, from, to);
    }
  }
  std::map<int64_t, std::set<int64_t>> sets;
  for (int64_t row = 0; row < count; ++row) sets[set[static_cast<size_t>(row)]].insert(row);
  std::set<std::set<int64_t>> groups;
  for (const auto& [first, rows] : sets) {
    if (rows.size() > 1) groups.insert(rows);
  }
  return groups;
}

std::set<std::set<int64_t>> Rows(const SimilarGroups& found) {
  std::set<std::set<int64_t>> groups;
  for (const SimilarGroup& group : found.groups) {
    std::set<int64_t> rows = {group.first};
    for (const Match& match : group.others) rows.insert(match.row);
    EXPECT_EQ(*rows.begin(), group.first);
    groups.insert(rows);
  }
  return groups;
}

TEST(SimilarGroups, AreThoseOfAllPairs) {
  Sampler sampler(11);
  auto vectors = sampler.Normal<float>({600, kWidth});
  // Copies with noise, one group of far more rows than are looked at first, and a chain.
  for (int64_t row = 100; row < 300; ++row) {
    for (int64_t d = 0; d < kWidth; ++d) vectors.data()[row * kWidth + d] = vectors.data()[d] * (row % 7 + 1);
  }
  for (int64_t row = 400; row < 420; ++row) {
    for (int64_t d = 0; d < kWidth; ++d) {
      vectors.data()[row * kWidth + d] =
          vectors.data()[(row - 1) * kWidth + d] + 0.1f * vectors.data()[row * kWidth + d];
    }
  }
  for (const float least : {0.5f, 0.9f, 0.98f}) {
    SCOPED_TRACE(least);
    int64_t done = 0;
    const SimilarGroups found =
        FindSimilarGroups(io::Stored<float>("", vectors), least, [&](int64_t rows) { done += rows; });
    EXPECT_EQ(Rows(found), Reference(vectors, least));
    EXPECT_EQ(done, 600);
    for (const SimilarGroup& group : found.groups) {
      for (size_t i = 0; i < group.others.size(); ++i) {
        EXPECT_GE(group.others[i].score, least);
        if (i > 0) {
          EXPECT_LE(group.others[i].score, group.others[i - 1].score);
        }
      }
    }
  }
}

TEST(SimilarGroups, LeaveOutWhatIsNotFinite) {
  Sampler sampler(12);
  auto vectors = sampler.Normal<float>({6, kWidth});
  std::copy_n(vectors.data(), kWidth, vectors.data() + 5 * kWidth);
  vectors.data()[2 * kWidth] = std::numeric_limits<float>::quiet_NaN();
  const SimilarGroups found = FindSimilarGroups(io::Stored<float>("", vectors), 0.99f);
  EXPECT_EQ(found.not_finite, 1);
  EXPECT_EQ(Rows(found), (std::set<std::set<int64_t>>{{0, 5}}));
  EXPECT_NE(ErrorMessage([&] { FindSimilarGroups(io::Stored<float>("", vectors), 0); }), "");
}

}  // namespace
}  // namespace qkv::app
