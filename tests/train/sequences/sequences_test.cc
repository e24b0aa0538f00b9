// Sequences to learn from: a text's windows ask for each byte as they say, tasks for training, validation and tests are
// different lists, and what cannot be learned from is refused by name.
#include "qkv/train/sequences/sequences.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "qkv/core/file.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"

namespace qkv::train {
namespace {

struct Sequence {
  std::vector<int32_t> tokens;
  std::vector<int64_t> labels;
  bool operator==(const Sequence&) const = default;
};

Sequence Get(const SequenceSet& set, int64_t number, int64_t length) {
  Sequence sequence{std::vector<int32_t>(static_cast<size_t>(length)),
                    std::vector<int64_t>(static_cast<size_t>(length))};
  set.Get(number, {sequence.tokens.data(), {1, length}}, {sequence.labels.data(), {1, length}});
  return sequence;
}

// Byte i is i mod 251: windows are known by what is in them, and places up to 251 by their bytes.
std::string Bytes(size_t count) {
  std::string bytes;
  for (size_t i = 0; i < count; ++i) bytes += static_cast<char>(i % 251);
  return bytes;
}

class TextTest : public testing::Test {
 protected:
  std::filesystem::path Write(const std::string& text) const {
    WriteFile(folder_ / "text.txt", text);
    return folder_ / "text.txt";
  }
  TemporaryFolder folder_;
};

TEST_F(TextTest, IsCutIntoTwoParts) {
  const Text text(Write(Bytes(200)));
  EXPECT_EQ(text.TrainPart(0.1).size(), 180u);
  EXPECT_EQ(text.ValidationPart(0.1).size(), 20u);
  EXPECT_EQ(text.TrainPart(0.1).data(), text.bytes().data());
  EXPECT_EQ(text.ValidationPart(0.1).data(), text.bytes().data() + 180);
  EXPECT_EQ(text.ValidationPart(0.001).size(), 2u) << "one byte to see, one to ask for";
}

TEST_F(TextTest, WindowsAskForEveryByteButTheFirstOnce) {
  for (const size_t size : {2u, 3u, 8u, 9u, 10u, 200u}) {
    const Text text(Write(Bytes(size)));
    for (const int64_t length : {2, 4, 7, 300}) {
      const auto set = text.Windows(text.bytes(), length);
      int64_t next = 1;
      for (int64_t w = 0; w < set->size(); ++w) {
        const Sequence sequence = Get(*set, w, length);
        for (size_t i = 0; i < sequence.tokens.size(); ++i) {
          if (sequence.labels[i] == kNotAsked) {
            EXPECT_EQ(w, set->size() - 1) << "only the last window is short";
            EXPECT_EQ(sequence.tokens[i], 0);
            continue;
          }
          EXPECT_EQ(sequence.labels[i], next % 251);
          EXPECT_EQ(sequence.tokens[i], (next - 1) % 251);
          ++next;
        }
      }
      EXPECT_EQ(next, static_cast<int64_t>(size)) << length;
    }
  }
}

TEST_F(TextTest, ShuffledWindowsSeeEachByteOnceAnEpoch) {
  const Text text(Write(Bytes(200)));
  constexpr int64_t kLength = 8;
  const auto set = text.ShuffledWindows(text.bytes(), kLength, 1);
  ASSERT_EQ(set->size(), 23);  // of 24 that fit
  std::set<int64_t> beginnings;
  std::vector<std::vector<int32_t>> firsts;
  for (int64_t epoch = 0; epoch < 40; ++epoch) {
    std::map<int32_t, int> seen;
    firsts.emplace_back();
    for (int64_t w = 0; w < set->size(); ++w) {
      const Sequence sequence = Get(*set, epoch * set->size() + w, kLength);
      for (size_t i = 0; i < kLength; ++i) {
        ASSERT_EQ(sequence.labels[i], sequence.tokens[i] + 1);
        EXPECT_EQ(++seen[sequence.tokens[i]], 1);
      }
      firsts.back().push_back(sequence.tokens[0]);
    }
    EXPECT_EQ(static_cast<int64_t>(seen.size()), set->size() * kLength);
    beginnings.insert(seen.begin()->first);
  }
  // 16 places, of which 40 draws leave hardly any out.
  EXPECT_GE(beginnings.size(), 10u);
  EXPECT_LE(*beginnings.rbegin(), 199 - set->size() * kLength);
  EXPECT_NE(firsts[0], firsts[1]);
  EXPECT_FALSE(std::ranges::is_sorted(firsts[0]));
  EXPECT_FALSE(Get(*text.ShuffledWindows(text.bytes(), kLength, 2), 0, kLength) == Get(*set, 0, kLength));
}

// What is missing reads as zeros, which nobody must learn.
TEST_F(TextTest, ATextThatShrinksIsAnError) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "shrinks.txt";
  WriteFile(path, Bytes(40'000));
  const Text text(path);
  const auto windows = text.Windows(text.bytes(), 8);
  const auto shuffled = text.ShuffledWindows(text.bytes(), 8, 1);
  Get(*windows, 4990, 8);
  std::filesystem::resize_file(path, 100);
  for (const SequenceSet* set : {windows.get(), shuffled.get()}) {
    const std::string said = ErrorMessage([&] { Get(*set, 4990, 8); });
    EXPECT_NE(said.find("shrinks.txt: the file was changed"), std::string::npos) << said;
  }
  EXPECT_NE(ErrorMessage([&] { text.RequireUnchanged(); }), "");
}

TEST_F(TextTest, WindowsBeginAtZero) {
  const TemporaryFolder folder;
  WriteFile(folder / "text", Bytes(100));
  const Text text(folder / "text");
  EXPECT_NE(ErrorMessage([&] { Get(*text.ShuffledWindows(text.bytes(), 8, 1), -3, 8); }), "");
}

TEST_F(TextTest, RefusesWhatIsTooShort) {
  const auto says = [](const std::string& part, auto&& f) {
    EXPECT_NE(ErrorMessage(f).find(part), std::string::npos) << ErrorMessage(f);
  };
  says("is empty", [&] { Text(Write("")); });
  says("single byte", [&] { Text(Write("a")); });
  says("nowhere", [&] { Text(folder_ / "nowhere"); });
  const Text text(Write(Bytes(100)));
  says("of 100 bytes 90 are left to train on, and a sequence of 90 takes 91",
       [&] { TextForTraining(text, 90, 0.1, 0); });
  EXPECT_EQ(TextForTraining(text, 89, 0.1, 0).train->size(), 1);
  EXPECT_NE(TextForTraining(text, 8, 0.1, 0).fingerprint,
            TextForTraining(Text(Write(Bytes(101))), 8, 0.1, 0).fingerprint);
}

TEST_F(TextTest, IsTextByNameAndBytes) {
  EXPECT_TRUE(IsSequenceData(Write("Once upon a time\n").string()));
  EXPECT_FALSE(IsSequenceData(Write(std::string("PK\0", 3)).string())) << "a zero byte";
  EXPECT_FALSE(IsSequenceData(std::string(folder_ / "")));
  WriteFile(folder_ / "images.csv", "path,label\n");
  EXPECT_FALSE(IsSequenceData((folder_ / "images.csv").string()));
  EXPECT_FALSE(IsSequenceData((folder_ / "nowhere.txt").string()));
}

TEST(TaskData, HasAListForEachUseAndSeed) {
  const Sequences sequences{.task = Task::kReverse, .length = 6, .vocabulary = 50};
  const SequenceData data = TaskForTraining(sequences, 640, 3), other = TaskForTraining(sequences, 640, 4);
  EXPECT_EQ(data.train->size(), 640);
  EXPECT_EQ(data.vocabulary, 50);
  EXPECT_FALSE(data.text);
  const auto test = TaskForEvaluation(sequences, 20, 3);
  EXPECT_EQ(test->size(), 20);
  std::set<std::vector<int32_t>> different;
  for (const SequenceSet* set : {data.train.get(), data.validation.get(), test.get(), other.train.get()}) {
    const Sequence sequence = Get(*set, 7, 6);
    different.insert(sequence.tokens);
    EXPECT_TRUE(std::equal(sequence.tokens.begin(), sequence.tokens.end(), sequence.labels.rbegin()));
  }
  EXPECT_EQ(different.size(), 4u);
  EXPECT_NE(data.fingerprint,
            TaskForTraining({.task = Task::kCopy, .length = 6, .vocabulary = 50}, 640, 3).fingerprint);
}

TEST(TaskData, IsFoundByItsName) {
  EXPECT_EQ(ParseTask("task:next-token"), Task::kNextToken);
  EXPECT_FALSE(ParseTask("photos"));
  EXPECT_NE(ErrorMessage([] { ParseTask("task:juggle"); }).find("task:recall"), std::string::npos);
}

}  // namespace
}  // namespace qkv::train
