// Cleaning of texts against open_clip's functions, with ftfy 6.3.1.
#include "qkv/text/clean.h"

#include <gtest/gtest.h>

#include <string>

namespace qkv::text {
namespace {

TEST(Clean, GivesWhatOpenClipGives) {
  const struct {
    const char *text, *whitespace, *lower, *canonical;
  } cases[] = {
      {"&amp;amp;amp;amp;lt;", "<", "<", ""},
      {"x &lt; y &notit; &notin; &copy2024 &EACUTE; &Eacute;", "x < y ¬it; ∉ ©2024 É É", "x < y ¬it; ∉ ©2024 é é",
       "x y ¬it ∉ ©2024 é é"},
      {"a<b &EACUTE; &amp;EACUTE;", "a<b &EACUTE; &EACUTE;", "a<b &eacute; &eacute;", "ab eacute eacute"},
      {"&#65;&#x42;&#0;&#128;&#xD800;&#7;&#x110000;&#12x;", "AB�€�� x;", "ab�€�� x;", "ab�€�� x"},
      {"“curly” ‘quotes’ ŉ ﬃ ＡＢＣ\343\200\200ｱ", "\"curly\" 'quotes' 'n ffi ABC ア",
       "\"curly\" 'quotes' 'n ffi abc ア", "curly quotes n ffi abc ア"},
      {"Σ ΣΑΣ ΑΣ' ΑΣ'Α", "Σ ΣΑΣ ΑΣ' ΑΣ'Α", "σ σας ας' ασ'α", "σ σας ας ασα"},
      {"a\033[1;31mb\033[x \033[1", "ab [1", "ab [1", "ab 1"},
      {"e\314\201 \357\273\277z\342\200\213", "é z\342\200\213", "é z\342\200\213", "é z\342\200\213"},
      {"\302\205\302\223 café", "…\" café", "…\" café", "… café"},
      {"A_photo, of: DOGS!", "A_photo, of: DOGS!", "a_photo, of: dogs!", "a photo of dogs"},
  };
  for (const auto& [text, whitespace, lower, canonical] : cases) {
    EXPECT_EQ(CleanWhitespace(text), whitespace) << text;
    EXPECT_EQ(CleanLower(text), lower) << text;
    EXPECT_EQ(CleanCanonical(text), canonical) << text;
  }
}

TEST(Clean, TakesBrokenUtf8AndEndsForReferencesInReferences) {
  EXPECT_EQ(CleanWhitespace("a\xff b\xe2\x82"), "a\xEF\xBF\xBD b\xEF\xBF\xBD");
  std::string nested = "&";
  for (int i = 0; i < 20'000; ++i) nested += "amp;";
  EXPECT_FALSE(CleanWhitespace(nested).empty());
  EXPECT_EQ(CleanCanonical(""), "");
}

}  // namespace
}  // namespace qkv::text
