// Ids back to text, whole and as they come.
#include <gtest/gtest.h>

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

TEST(Decode, StreamsWholeCharacters) {
  for (const char* name : {"llama3", "gemma", "clip_slow"}) {
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

TEST(Decode, RefusesOtherIds) {
  const Tokenizer gpt2 = OpenGolden("gpt2");
  EXPECT_NE(ErrorMessage([&] { gpt2.Decode(std::vector<int32_t>{1 << 30}); }).find("expected ids"), std::string::npos);
  EXPECT_NE(ErrorMessage([&] { gpt2.Decode(std::vector<int32_t>{-1}); }).find("expected ids"), std::string::npos);
}

}  // namespace
}  // namespace qkv::text
