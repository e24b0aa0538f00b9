// Trained vocabularies are those of PyPI's BpeTrainer, merge by merge.
#include "qkv/text/bpe_trainer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "qkv/core/error.h"
#include "qkv/text/unicode.h"
#include "tests/support/errors.h"
#include "tests/text/support.h"

namespace qkv::text {
namespace {

TrainedBpe Train(const std::vector<std::string>& texts, BpeTrainerOptions options) {
  BpeTrainer trainer(std::move(options));
  for (const std::string& text : texts) trainer.Add(text);
  return trainer.Train();
}

const BpeRoles kRoles = {.end = "</s>", .padding = "<pad>", .add_end = true, .model_max_length = 64};

TEST(BpeTrainer, LearnsTheOriginalsMerges) {
  const TrainedBpe bpe = Train(GoldenTexts(), {.vocabulary_size = 900, .special_tokens = {"<pad>", "</s>"}});
  const io::Json wanted = io::ReadJson(GoldenFolder() / "trained/tokenizer.json");
  const io::Json written = io::ParseJson(TokenizerJson(bpe, kRoles), "written");
  EXPECT_EQ(written["model"]["vocab"], wanted["model"]["vocab"]);
  EXPECT_EQ(written["model"]["merges"], wanted["model"]["merges"]);
  EXPECT_EQ(written["added_tokens"], wanted["added_tokens"]);
  EXPECT_EQ(written["post_processor"], wanted["post_processor"]);
  EXPECT_EQ(written["decoder"], wanted["decoder"]);
  EXPECT_EQ(bpe.tokens.size(), 900u);
}

TEST(BpeTrainer, WritesAFolderThatOpens) {
  TemporaryFolder folder;
  WriteTokenizer(Train(GoldenTexts(), {.vocabulary_size = 900, .special_tokens = {"<pad>", "</s>"}}), kRoles,
                 folder.path());
  const Tokenizer written = Tokenizer::Open(folder.path()), original = OpenGolden("trained");
  for (const std::string& text : GoldenTexts()) {
    const std::vector<int32_t> ids = written.Encode(text);
    EXPECT_EQ(ids, original.Encode(text));
    if (IsValidUtf8(text) && text.find("</s>") == text.npos) EXPECT_EQ(written.Decode(ids), text);
  }
  EXPECT_EQ(written.special().end, 1);
  EXPECT_EQ(written.special().padding, 0);
  EXPECT_EQ(written.model_max_length(), 64);
  EXPECT_EQ(written.Encode("a", {.padding = Padding::kMaxLength}).size(), 64u);
}

TEST(BpeTrainer, DependsOnTheWordsOnly) {
  std::vector<std::string> texts = GoldenTexts();
  const BpeTrainerOptions options = {.vocabulary_size = 700, .min_frequency = 2, .special_tokens = {"<pad>", "</s>"}};
  const std::string once = TokenizerJson(Train(texts, options), kRoles);
  std::shuffle(texts.begin(), texts.end(), std::mt19937(1));
  EXPECT_EQ(TokenizerJson(Train(texts, options), kRoles), once);
}

TEST(BpeTrainer, FollowsTheRules) {
  // "ab" is there four times, "bc" three times; of "ab" and "cd", equally frequent, the lower ids come first.
  const auto merges = [](const std::vector<std::string>& texts, int64_t size, int64_t frequency = 0) {
    const TrainedBpe bpe = Train(texts, {.vocabulary_size = size, .min_frequency = frequency});
    return std::vector<std::string>(bpe.tokens.begin() + 256, bpe.tokens.end());
  };
  EXPECT_EQ(merges({"abc ab", "abc", "bc", "ab"}, 257), std::vector<std::string>{"ab"});
  EXPECT_EQ(merges({"cd", "ab"}, 300), (std::vector<std::string>{"ab", "cd"}));
  EXPECT_EQ(merges({"cd", "ab", "cd"}, 300, 2), std::vector<std::string>{"cd"});
  EXPECT_EQ(merges({"aaaa"}, 300), (std::vector<std::string>{"aa", "aaaa"}));
  EXPECT_EQ(merges({"aaa"}, 300), (std::vector<std::string>{"aa", "aaa"}));
  EXPECT_TRUE(merges({}, 300).empty());
  EXPECT_TRUE(merges({"", "a", "b"}, 300).empty());
}

TEST(BpeTrainer, PrefixSpace) {
  const TrainedBpe bpe = Train({"ab", "ab"}, {.vocabulary_size = 300, .add_prefix_space = true});
  EXPECT_EQ(bpe.tokens.back(),
            "\xc4\xa0"
            "ab");
  const Tokenizer tokenizer = Tokenizer::FromJson(TokenizerJson(bpe, {}), "t");
  EXPECT_EQ(tokenizer.Encode("ab"), tokenizer.Encode(" ab"));
}

TEST(BpeTrainer, LongWordsTakeLittleTime) {
  std::mt19937 random(1);
  std::string letters;
  while (letters.size() < size_t{1} << 20) letters += static_cast<char>('a' + random() % 26);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(Train({letters, std::string(size_t{1} << 20, 'x')}, {.vocabulary_size = 5000}).tokens.size(), 5000u);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(120));
}

TEST(BpeTrainer, SaysWhatItNeeds) {
  const auto message = [](BpeTrainerOptions options) { return ErrorMessage([&] { BpeTrainer trainer(options); }); };
  EXPECT_NE(message({.vocabulary_size = 256, .special_tokens = {"<pad>"}}).find("vocabulary of 257"),
            std::string::npos);
  EXPECT_NE(message({.vocabulary_size = int64_t{1} << 40}).find("expected a vocabulary"), std::string::npos);
  EXPECT_NE(message({.special_tokens = {""}}).find("not empty"), std::string::npos);
  EXPECT_NE(message({.special_tokens = {"\xff"}}).find("UTF-8"), std::string::npos);
  const TrainedBpe bpe = Train({"ab"}, {.vocabulary_size = 300, .special_tokens = {"<pad>"}});
  EXPECT_NE(ErrorMessage([&] { TokenizerJson(bpe, {.end = "</s>"}); }).find("\"</s>\""), std::string::npos);
  EXPECT_NE(ErrorMessage([&] { TokenizerJson(bpe, {.add_end = true}); }).find("expected a token"), std::string::npos);
}

}  // namespace
}  // namespace qkv::text
