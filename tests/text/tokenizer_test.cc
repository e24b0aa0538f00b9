// Lengths, padding, batches and special tokens.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/support/errors.h"
#include "tests/support/forks.h"
#include "tests/text/support.h"

namespace qkv::text {
namespace {

TEST(Tokenizer, ClipKeepsItsEndWhenCut) {
  const Tokenizer clip = OpenGolden("clip_slow");
  EXPECT_EQ(clip.model_max_length(), 77);
  ASSERT_TRUE(clip.special().begin && clip.special().end);
  std::string text;
  for (int i = 0; i < 200; ++i) text += "cat ";
  const std::vector<int32_t> ids = clip.Encode(text, {.max_length = 77});
  ASSERT_EQ(ids.size(), 77u);
  EXPECT_EQ(ids.front(), *clip.special().begin);
  EXPECT_EQ(ids.back(), *clip.special().end);
  EXPECT_EQ(clip.Encode(text, {.padding = Padding::kMaxLength}), ids);
  const std::vector<int32_t> padded = clip.Encode("cat", {.padding = Padding::kMaxLength});
  ASSERT_EQ(padded.size(), 77u);
  EXPECT_EQ(padded.back(), *clip.special().padding);
  EXPECT_NE(ErrorMessage([&] { clip.Encode("cat", {.max_length = 1}); }).find("at least 2"), std::string::npos);
}

TEST(Tokenizer, SiglipIsPaddedToItsLength) {
  const Tokenizer siglip = OpenGolden("siglip");
  const std::vector<int32_t> ids = siglip.Encode("A photo, of a CAT!", {.padding = Padding::kMaxLength});
  ASSERT_EQ(ids.size(), 64u);
  EXPECT_EQ(ids.back(), *siglip.special().padding);
  EXPECT_EQ(ids, siglip.Encode("a photo of a cat", {.padding = Padding::kMaxLength}));
}

TEST(Tokenizer, BatchHasMaskAndLengths) {
  const Tokenizer gpt2 = OpenGolden("gpt2");
  const std::vector<std::string> texts = {"a photo of a cat", "", "two"};
  const TokenBatch batch = gpt2.EncodeBatch(texts, {.padding = Padding::kLongest});
  EXPECT_EQ(batch.rows, 3);
  EXPECT_EQ(batch.columns, batch.lengths[0]);
  for (int64_t row = 0; row < batch.rows; ++row) {
    const std::vector<int32_t> alone = gpt2.Encode(texts[static_cast<size_t>(row)]);
    ASSERT_EQ(batch.lengths[static_cast<size_t>(row)], std::ssize(alone));
    for (int64_t i = 0; i < batch.columns; ++i) {
      const auto at = static_cast<size_t>(row * batch.columns + i);
      EXPECT_EQ(batch.mask[at], i < std::ssize(alone) ? 1 : 0);
      EXPECT_EQ(batch.ids[at], i < std::ssize(alone) ? alone[static_cast<size_t>(i)] : 0);
    }
  }
  EXPECT_NE(ErrorMessage([&] { gpt2.EncodeBatch(texts); }).find("give a padding"), std::string::npos);
  EXPECT_NE(ErrorMessage([&] { gpt2.EncodeBatch(texts, {.padding = Padding::kMaxLength}); }).find("give max_length"),
            std::string::npos);
}

TEST(Tokenizer, TokensAndIds) {
  for (const char* name : {"clip", "gpt2", "siglip_model", "gemma", "gemma_json", "byte_normalizer"}) {
    const Tokenizer tokenizer = OpenGolden(name);
    EXPECT_GT(tokenizer.size(), 250) << name;
    int64_t found = 0;
    for (int32_t id = 0; id <= tokenizer.max_id(); ++id) {
      if (const auto token = tokenizer.TokenOf(id)) found += tokenizer.IdOf(*token) == id ? 1 : 0;
    }
    EXPECT_EQ(found, tokenizer.size()) << name;
    EXPECT_EQ(tokenizer.TokenOf(-1), std::nullopt);
    EXPECT_EQ(tokenizer.TokenOf(tokenizer.max_id() + 1), std::nullopt);
  }
}

// Whatever another thread of its parent was doing with the tokenizer.
TEST(Tokenizer, EncodesInAForkedChild) {
  const Tokenizer gpt2 = OpenGolden("gpt2");
  const std::vector<int32_t> ids = gpt2.Encode("two");
  std::atomic<bool> stop{false};
  std::thread other([&] {
    while (!stop) gpt2.Encode("two");
  });
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(ExitsAfter(3, [&] { return gpt2.Encode("two") == ids ? 3 : 1; }));
  stop = true;
  other.join();
}

TEST(Tokenizer, BertKnowsItsTokensAndLength) {
  const Tokenizer bert = OpenGolden("bert_options");
  EXPECT_EQ(bert.model_max_length(), 128);
  ASSERT_TRUE(bert.special().classify && bert.special().separate && bert.special().padding && bert.special().mask);
  EXPECT_EQ(bert.special().mask, bert.IdOf("[MASK]"));
  std::string text;
  for (int i = 0; i < 300; ++i) text += "photo ";
  const std::vector<int32_t> ids = bert.Encode(text, {.padding = Padding::kMaxLength});
  ASSERT_EQ(ids.size(), 128u);
  EXPECT_EQ(ids.front(), *bert.special().classify);
  EXPECT_EQ(ids.back(), *bert.special().separate);
  EXPECT_EQ(bert.Encode("photo", {.padding = Padding::kMaxLength}).back(), *bert.special().padding);
}

TEST(Tokenizer, MarianWithTwoVocabularies) {
  TemporaryFolder folder;
  for (const char* name : {"source.spm", "target.spm", "vocab.json"}) {
    std::filesystem::copy(GoldenFolder() / "marian" / name, folder / name);
  }
  io::Json vocabulary = io::ReadJson(GoldenFolder() / "marian/vocab.json"), shifted;
  for (const auto& [token, id] : vocabulary.items()) shifted[token] = id.get<int32_t>() + 1000;
  WriteFile(folder / "target_vocab.json", shifted.dump());
  WriteFile(folder / "tokenizer_config.json", R"({"separate_vocabs": true})");
  const Tokenizer source = Tokenizer::Open(folder.path()), target = Tokenizer::OpenTarget(folder.path());
  EXPECT_EQ(source.Encode("a cat"), OpenGolden("marian").Encode("a cat"));
  std::vector<int32_t> ids = Tokenizer::OpenTarget(GoldenFolder() / "marian").Encode("a cat");
  for (int32_t& id : ids) id += 1000;
  EXPECT_EQ(target.Encode("a cat"), ids);
  EXPECT_EQ(target.Decode(ids), "a cat");
  EXPECT_EQ(target.model_max_length(), 512);
}

TEST(Tokenizer, SpecialTokensOnRequest) {
  const Tokenizer clip = OpenGolden("clip");
  const std::vector<int32_t> with = clip.Encode("cat"), without = clip.Encode("cat", {.add_special_tokens = false});
  EXPECT_EQ(with.size(), without.size() + 2);
  EXPECT_TRUE(std::equal(without.begin(), without.end(), with.begin() + 1));
}

TEST(Tokenizer, SaysWhatItNeeds) {
  TemporaryFolder folder;
  EXPECT_NE(ErrorMessage([&] { Tokenizer::Open(folder.path()); }).find("spiece.model"), std::string::npos);
  EXPECT_NE(ErrorMessage([&] { Tokenizer::Open(folder / "nowhere"); }).find("no such file"), std::string::npos);
  const auto json = [](std::string_view text) { return ErrorMessage([&] { Tokenizer::FromJson(text, "t"); }); };
  EXPECT_NE(json(R"({"model": {"type": "WordLevel"}})").find("expected a model of type BPE, Unigram or WordPiece"),
            std::string::npos);
  EXPECT_NE(json(R"({"model": {"type": "BPE", "vocab": {}, "merges": []}, "normalizer": {"type": "Nmt"}})")
                .find("got \"Nmt\""),
            std::string::npos);
  EXPECT_NE(json(R"({"model": {"type": "BPE", "vocab": {}, "merges": [], "dropout": 0.1}})").find("dropout"),
            std::string::npos);
}

}  // namespace
}  // namespace qkv::text
