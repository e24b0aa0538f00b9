// Lengths, padding, batches and special tokens.
#include <gtest/gtest.h>

#include "tests/support/errors.h"
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
  EXPECT_NE(json(R"({"model": {"type": "WordLevel"}})").find("expected a model of type BPE or Unigram"),
            std::string::npos);
  EXPECT_NE(json(R"({"model": {"type": "BPE", "vocab": {}, "merges": []}, "normalizer": {"type": "Nmt"}})")
                .find("got \"Nmt\""),
            std::string::npos);
  EXPECT_NE(json(R"({"model": {"type": "BPE", "vocab": {}, "merges": [], "dropout": 0.1}})").find("dropout"),
            std::string::npos);
}

}  // namespace
}  // namespace qkv::text
