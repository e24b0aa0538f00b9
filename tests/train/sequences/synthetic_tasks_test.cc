// Sequence tasks: every target follows from its tokens, by rules written a second time; draws are uniform, and one
// sequence does not depend on which others are made.
#include "qkv/train/sequences/synthetic_tasks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

namespace qkv::train {
namespace {

using Row = std::vector<int64_t>;

struct Made {
  Tensor<int32_t> tokens;
  Tensor<int64_t> targets;
  Row Tokens(int64_t b) const { return Of(tokens, b); }
  Row Targets(int64_t b) const { return Of(targets, b); }
  template <typename T>
  static Row Of(const Tensor<T>& rows, int64_t b) {
    return Row(rows.data() + b * rows.dim(1), rows.data() + (b + 1) * rows.dim(1));
  }
};

Made Make(const Sequences& sequences, int64_t count, uint64_t seed = 1, int64_t first = 0) {
  Made made{Tensor<int32_t>({count, sequences.length}), Tensor<int64_t>({count, sequences.length})};
  Generate(sequences, seed, first, made.tokens.view(), made.targets.view());
  return made;
}

// Recall: two pairs, and four that ask.
Sequences Of(Task task) { return {.task = task, .length = 8, .vocabulary = 10}; }

int64_t Expected(Task task, const Row& x, size_t i) {
  const size_t n = x.size();
  switch (task) {
    case Task::kCopy:
      return x[i];
    case Task::kReverse:
      return x[n - 1 - i];
    case Task::kSort: {
      for (int64_t token = 0;; ++token) {  // the token below or at which more than i lie
        if (std::ranges::count_if(x, [&](int64_t t) { return t <= token; }) > static_cast<int64_t>(i)) return token;
      }
    }
    case Task::kSwap:
      return x[(i + n / 2) % n];
    case Task::kNextToken:
      return i + 1 < n ? x[i + 1] : kNotAsked;
    case Task::kRecall: {
      const size_t pairs = n / 3;
      if (i < 2 * pairs) return kNotAsked;
      for (size_t p = 0; p < pairs; ++p) {
        if (x[2 * p] == x[i]) return x[2 * p + 1];
      }
      return -2;
    }
  }
  return -2;
}

TEST(Tasks, TargetsFollowFromTokens) {
  for (const Task task : kTasks) {
    const Made made = Make(Of(task), 200);
    for (int64_t b = 0; b < 200; ++b) {
      const Row x = made.Tokens(b), y = made.Targets(b);
      for (size_t i = 0; i < x.size(); ++i) {
        ASSERT_EQ(y[i], Expected(task, x, i)) << Name(task) << ' ' << b << ' ' << i;
        ASSERT_TRUE(x[i] >= 0 && x[i] < 10) << Name(task);
      }
    }
  }
}

TEST(Tasks, RecallHasDifferentKeysAndAsksForEachPairAlike) {
  const Made made = Make({.task = Task::kRecall, .length = 13, .vocabulary = 10}, 1000);
  std::map<int64_t, int> asked;
  for (int64_t b = 0; b < 1000; ++b) {
    const Row x = made.Tokens(b);
    std::set<int32_t> keys;
    for (size_t p = 0; p < 8; p += 2) {
      EXPECT_LT(x[p], 5);
      EXPECT_GE(x[p + 1], 5);
      keys.insert(x[p]);
      asked[static_cast<int64_t>(p / 2)] += static_cast<int>(std::count(x.begin() + 8, x.end(), x[p]));
    }
    EXPECT_EQ(keys.size(), 4u);
  }
  // Binomial with n = 5000, p = 1/4: five standard deviations are 153.
  for (const auto& [pair, count] : asked) EXPECT_NEAR(count, 1250, 153) << pair;
  EXPECT_EQ(asked.size(), 4u);
}

TEST(Tasks, TokensAreUniform) {
  const Made made = Make(Of(Task::kCopy), 5000);
  std::vector<int> counts(10);
  for (const int32_t token : made.tokens.span()) ++counts[static_cast<size_t>(token)];
  // Binomial with n = 40000, p = 1/10: five standard deviations are 300.
  for (const int count : counts) EXPECT_NEAR(count, 4000, 300);
}

TEST(Tasks, ASequenceDependsOnSeedAndPlaceAlone) {
  for (const Task task : kTasks) {
    const Made all = Make(Of(task), 20), later = Make(Of(task), 5, 1, 7), other = Make(Of(task), 20, 2);
    for (int64_t b = 0; b < 5; ++b) {
      EXPECT_EQ(later.Tokens(b), all.Tokens(7 + b)) << Name(task);
      EXPECT_EQ(later.Targets(b), all.Targets(7 + b)) << Name(task);
    }
    EXPECT_NE(other.Tokens(0), all.Tokens(0)) << Name(task);
  }
}

TEST(Tasks, NamesAreFound) {
  for (const Task task : kTasks) EXPECT_EQ(FindTask(Name(task)), task);
  EXPECT_FALSE(FindTask("shuffle"));
}

TEST(Tasks, RefuseWhatCannotBeAsked) {
  EXPECT_THROW((Sequences{.task = Task::kSwap, .length = 7}.Validate()), Error);
  EXPECT_THROW((Sequences{.task = Task::kRecall, .length = 2}.Validate()), Error);
  EXPECT_THROW((Sequences{.task = Task::kRecall, .length = 27, .vocabulary = 16}.Validate()), Error);
  EXPECT_THROW((Sequences{.length = 1}.Validate()), Error);
  EXPECT_THROW((Sequences{.vocabulary = 1}.Validate()), Error);
  EXPECT_NO_THROW((Sequences{.task = Task::kRecall, .length = 26, .vocabulary = 16}.Validate()));
  Tensor<int32_t> tokens({2, 8});
  Tensor<int64_t> targets({2, 7});
  EXPECT_THROW(Generate({.length = 8}, 0, 0, tokens.view(), targets.view()), Error);
}

}  // namespace
}  // namespace qkv::train
