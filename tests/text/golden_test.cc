// Ids are those of the original libraries, id by id.
#include <gtest/gtest.h>

#include <thread>

#include "qkv/core/error.h"
#include "qkv/core/text.h"
#include "qkv/text/unicode.h"
#include "tests/text/support.h"

namespace qkv::text {
namespace {

class Golden : public testing::TestWithParam<const char*> {};

TEST_P(Golden, IdsAreTheOriginals) {
  const Tokenizer tokenizer = OpenGolden(GetParam());
  const std::vector<std::string> texts = GoldenTexts();
  const io::Json rows = io::ReadJson(GoldenFolder() / GetParam() / "ids.json");
  ASSERT_EQ(rows.size(), texts.size());
  // Twice: the second time short words come from the cache.
  for (int round = 0; round < 2; ++round) {
    for (size_t i = 0; i < texts.size(); ++i) {
      EXPECT_EQ(tokenizer.Encode(texts[i]), rows[i].get<std::vector<int32_t>>()) << Printable(texts[i]);
    }
  }
}

TEST_P(Golden, IdsDoNotDependOnThreads) {
  const Tokenizer tokenizer = OpenGolden(GetParam());
  const std::vector<std::string> texts = GoldenTexts();
  std::vector<std::vector<int32_t>> wanted;
  for (const std::string& text : texts) wanted.push_back(tokenizer.Encode(text));
  std::vector<std::thread> threads;
  std::vector<int> differences(4, 0);
  for (size_t t = 0; t < differences.size(); ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = 0; i < texts.size(); ++i) {
        const size_t index = (i + 31 * t) % texts.size();
        if (tokenizer.Encode(texts[index]) != wanted[index]) ++differences[t];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(differences, std::vector<int>(4, 0));
}

// Long words, runs of spaces and single characters, all without quadratic time: each takes a fraction of a second.
TEST_P(Golden, LongTextsTakeLinearTime) {
  const Tokenizer tokenizer = OpenGolden(GetParam());
  constexpr size_t kLong = size_t{1} << 20;
  std::string mixed, characters;
  while (mixed.size() < kLong) mixed += "qkvattention" + std::to_string(mixed.size());
  while (characters.size() < kLong) characters += "\xe7\x8c\xab\xcc\x81";
  const auto start = std::chrono::steady_clock::now();
  for (const std::string& text : {std::string(kLong, 'a'), std::string(kLong, ' '), mixed, characters,
                                  std::string(kLong, '\xff'), std::string(kLong, '.')}) {
    EXPECT_LE(tokenizer.Encode(text).size(), 4 * kLong + 100);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(120));
}

INSTANTIATE_TEST_SUITE_P(Kinds, Golden,
                         testing::Values("clip", "clip_slow", "gpt2", "llama3", "siglip", "siglip_model", "siglip_json",
                                         "t5_json", "gemma", "gemma_json", "llama2", "unigram_bytes", "suffix", "steps",
                                         "more_steps", "byte_normalizer", "bert", "bert_cased", "bert_slow",
                                         "bert_options", "marian", "t5_slow", "xlm_slow", "roberta", "roberta_slow",
                                         "qwen2", "qwen2_slow", "llama_json"),
                         [](const auto& test) { return std::string(test.param); });

// Further texts, and their ids as text again.
class More : public testing::TestWithParam<const char*> {};

TEST_P(More, IdsAndTextsAreTheOriginals) {
  const Tokenizer tokenizer = OpenGolden(GetParam());
  for (const io::Json& row : io::ReadJson(GoldenFolder() / GetParam() / "more.json")) {
    const std::string text = row["text"];
    const std::vector<int32_t> ids = tokenizer.Encode(text);
    EXPECT_EQ(ids, row["ids"].get<std::vector<int32_t>>()) << Printable(text);
    const std::vector<int32_t> wanted = row["ids"];
    EXPECT_EQ(tokenizer.Decode(wanted), row["decoded"]) << Printable(text);
    EXPECT_EQ(tokenizer.Decode(wanted, /*special_tokens=*/true), row["decoded_special"]) << Printable(text);
  }
}

TEST_P(More, StreamsTheSameText) {
  const Tokenizer tokenizer = OpenGolden(GetParam());
  std::vector<std::string> texts = GoldenTexts();
  for (const io::Json& row : io::ReadJson(GoldenFolder() / GetParam() / "more.json")) texts.push_back(row["text"]);
  for (const std::string& text : texts) {
    const std::vector<int32_t> ids = tokenizer.Encode(text);
    StreamingDecoder decoder(tokenizer);
    std::string streamed;
    for (const int32_t id : ids) {
      const std::string part = decoder.Add(id);
      EXPECT_TRUE(IsValidUtf8(part));
      streamed += part;
    }
    streamed += decoder.Finish();
    EXPECT_EQ(streamed, tokenizer.Decode(ids)) << Printable(text);
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, More,
                         testing::Values("bert", "bert_cased", "bert_slow", "bert_options", "marian", "t5_slow",
                                         "xlm_slow", "roberta", "roberta_slow", "qwen2", "qwen2_slow", "llama_json"),
                         [](const auto& test) { return std::string(test.param); });

TEST(Marian, TargetSideHasItsOwnPieces) {
  const Tokenizer target = Tokenizer::OpenTarget(GoldenFolder() / "marian");
  for (const io::Json& row : io::ReadJson(GoldenFolder() / "marian/more.json")) {
    EXPECT_EQ(target.Encode(row["text"].get<std::string>()), row["target_ids"].get<std::vector<int32_t>>())
        << row["text"];
  }
  const Tokenizer bert = Tokenizer::OpenTarget(GoldenFolder() / "bert_slow");
  EXPECT_EQ(bert.Encode("a photo"), OpenGolden("bert_slow").Encode("a photo"));
}

}  // namespace
}  // namespace qkv::text
