// The normalizers of a tokenizer.json, each a function of a segment of text.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "qkv/text/charsmap.h"
#include "qkv/text/pieces.h"
#include "qkv/text/regex.h"
#include "qkv/text/unicode.h"

namespace qkv::text {

Normalizer UnicodeForm(NormalForm form);
Normalizer LowerCase();
/// Removes white space at the ends.
Normalizer Strip(bool left, bool right);
/// Removes combining marks.
Normalizer StripAccents();
/// Every match becomes `content`, taken literally. Throws Error, prefixed with `where`, at an empty one in front.
Normalizer Replace(Regex pattern, std::string content, std::string where);
/// `content` in front, unless the text is empty.
Normalizer Prepend(std::string content);
/// SentencePiece's map as tokenizer.json applies it: whole grapheme clusters of up to 5 bytes by the shortest key that
/// they begin with, other characters one by one.
Normalizer Precompiled(Charsmap map);

struct BertNormalizerOptions {
  bool clean_text = true;             // controls go, each white space becomes a space
  bool split_ideographs = true;       // spaces around each
  std::optional<bool> strip_accents;  // unset: as lowercase
  bool lowercase = true;
};
Normalizer Bert(const BertNormalizerOptions& options);
/// Each byte becomes a printable character (byte_level.h).
Normalizer ByteLevelCharacters();

}  // namespace qkv::text
