// Ids back to text, whole and as they come.
#include <gtest/gtest.h>

#include <span>

#include "qkv/core/text.h"
#include "qkv/text/unicode.h"
#include "tests/support/errors.h"
#include "tests/text/support.h"

namespace qkv::text {
namespace {

// Byte-level models and those with byte fallback give back every valid text.
TEST(Decode, GivesBackTexts) {
  for (const char* name : {"llama3", "gemma"}) {
    const Tokenizer tokenizer = OpenGolden(name);
    for (const std::string& text : GoldenTexts()) {
      if (!IsValidUtf8(text) || text.find('<') != std::string::npos || text.find("\xe2\x96\x81") != std::string::npos) {
        continue;
      }
      EXPECT_EQ(tokenizer.Decode(tokenizer.Encode(text)), text) << name << ": " << Printable(text);
    }
  }
}

TEST(Decode, Clip) {
  const Tokenizer clip = OpenGolden("clip_slow");
  EXPECT_EQ(clip.Decode(clip.Encode("A photo of a CAT")), "a photo of a cat");
  EXPECT_EQ(clip.Decode(clip.Encode("a cat"), /*special_tokens=*/true), "<|startoftext|>a cat <|endoftext|>");
}

TEST(Decode, ReadableTokensAreTextAgain) {
  const auto readable = [](const char* name, std::string_view text) {
    const Tokenizer tokenizer = OpenGolden(name);
    std::string all;
    for (const int32_t id : tokenizer.Encode(text)) all += (all.empty() ? "" : "|") + tokenizer.ReadableToken(id);
    return all;
  };
  // Bytes of a character that are tokens of their own are escaped.
  EXPECT_EQ(readable("gpt2", "na\xc3\xafve caf\xc3\xa9\n\xf0\x9f\xa6\x8a"),
            R"(n|a|\xc3|\xaf|v|e|▁c|a|f|é|\n|\xf0|\x9f|\xa6|\x8a)");
  EXPECT_EQ(readable("marian", "The house").substr(0, 6), "\xe2\x96\x81The");
  EXPECT_NE(readable("bert", "The house").find("##"), std::string::npos);
  const Tokenizer gpt2 = OpenGolden("gpt2");
  EXPECT_EQ(gpt2.ReadableToken(1 << 30), "<1073741824>");
  for (const char* name : {"llama3", "clip_slow", "t5_json", "siglip", "roberta", "qwen2", "trained"}) {
    const Tokenizer tokenizer = OpenGolden(name);
    for (int32_t id = 0; id <= tokenizer.max_id(); ++id) {
      EXPECT_EQ(Printable(tokenizer.ReadableToken(id)), tokenizer.ReadableToken(id)) << name << " " << id;
    }
  }
}

TEST(Decode, StreamsWholeCharacters) {
  for (const char* name : {"llama3", "gemma", "clip_slow", "gpt2", "siglip", "t5_json", "llama_json", "qwen2", "bert",
                           "bert_options", "marian", "t5_slow", "xlm_slow", "trained"}) {
    const Tokenizer tokenizer = OpenGolden(name);
    const std::string text = "a \xe7\x8c\xab and \xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x91\xa7 or caf\xc3\xa9 too";
    const std::vector<int32_t> ids = tokenizer.Encode(text);
    StreamingDecoder decoder(tokenizer);
    std::string streamed;
    for (const int32_t id : ids) {
      const std::string part = decoder.Add(id);
      EXPECT_TRUE(IsValidUtf8(part));
      EXPECT_EQ(part.find("\xef\xbf\xbd"), std::string::npos) << name;
      streamed += part;
    }
    streamed += decoder.Finish();
    EXPECT_EQ(streamed, tokenizer.Decode(ids)) << name;
  }
}

TEST(Decode, JoinsWordPieces) {
  const auto decode = [](std::string_view decoder, std::vector<int32_t> ids) {
    const std::string json =
        R"({"model": {"type": "WordPiece", "unk_token": "?", "vocab": {"?": 0, "play": 1, "##ing": 2, ".": 3, "'": 4,)"
        R"( "s": 5, "do not": 6}}, "decoder": )" +
        std::string(decoder) + "}";
    const Tokenizer tokenizer = Tokenizer::FromJson(json, "t");
    StreamingDecoder streaming(tokenizer);
    std::string streamed;
    for (const int32_t id : ids) streamed += streaming.Add(id);
    EXPECT_EQ(streamed + streaming.Finish(), tokenizer.Decode(ids));
    return tokenizer.Decode(ids);
  };
  constexpr std::string_view kClean = R"({"type": "WordPiece", "prefix": "##", "cleanup": true})";
  EXPECT_EQ(decode(kClean, {1, 2, 2, 1, 3}), "playinging play.");
  EXPECT_EQ(decode(kClean, {2, 1, 4, 5}), "##ing play ' s");
  EXPECT_EQ(decode(kClean, {1, 6}), "play don't");
  EXPECT_EQ(decode(R"({"type": "WordPiece", "prefix": "##", "cleanup": false})", {1, 2, 3}), "playing .");
  EXPECT_EQ(decode("null", {1, 2, 3}), "play ##ing .");
}

// Where spaces are cleaned, text waits until no more of it can become something else.
TEST(Decode, StreamsCleanedText) {
  TemporaryFolder folder;
  WriteFile(folder / "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\ndo\nn\n'\nt\nve\nx\n.\n##n\n");
  WriteFile(folder / "tokenizer_config.json", R"({"clean_up_tokenization_spaces": true})");
  const Tokenizer tokenizer = Tokenizer::Open(folder.path());
  std::vector<int32_t> ids = {4, 5, 6, 7, 10, 9, 6, 8, 6, 9, 4, 11, 6, 7, 5, 9, 6};
  EXPECT_EQ(tokenizer.Decode(ids), "don't. x've'x don't n x '");
  for (size_t size = 0; size <= ids.size(); ++size) {
    StreamingDecoder decoder(tokenizer);
    std::string streamed;
    for (size_t i = 0; i < size; ++i) streamed += decoder.Add(ids[i]);
    EXPECT_EQ(streamed + decoder.Finish(), tokenizer.Decode(std::span(ids).first(size))) << size;
  }
}

TEST(Decode, RefusesOtherIds) {
  const Tokenizer gpt2 = OpenGolden("gpt2");
  EXPECT_NE(ErrorMessage([&] { gpt2.Decode(std::vector<int32_t>{1 << 30}); }).find("expected ids"), std::string::npos);
  EXPECT_NE(ErrorMessage([&] { gpt2.Decode(std::vector<int32_t>{-1}); }).find("expected ids"), std::string::npos);
}

}  // namespace
}  // namespace qkv::text
