// UTF-8 and Unicode properties of characters, as the original tokenizers see them. Tables are those of utf8proc.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace qkv::text {

/// The code point at `at` of valid UTF-8, and the index behind it.
struct Character {
  char32_t code;
  size_t end;
};
/// Decodes without checks: `text` must be valid UTF-8 and `at` the beginning of a character.
inline Character CharacterAt(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const char32_t first = byte(at);
  if (first < 0x80) return {first, at + 1};
  if (first < 0xe0) return {(first & 0x1f) << 6 | (byte(at + 1) & 0x3f), at + 2};
  if (first < 0xf0) return {(first & 0x0f) << 12 | (byte(at + 1) & 0x3f) << 6 | (byte(at + 2) & 0x3f), at + 3};
  return {(first & 0x07) << 18 | (byte(at + 1) & 0x3f) << 12 | (byte(at + 2) & 0x3f) << 6 | (byte(at + 3) & 0x3f),
          at + 4};
}
/// The index behind the character at `at` of valid UTF-8.
inline size_t CharacterEnd(std::string_view text, size_t at) {
  const auto first = static_cast<unsigned char>(text[at]);
  return at + (first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4);
}
/// The beginning of the character that ends before `end` > 0.
inline size_t CharacterBefore(std::string_view text, size_t end) {
  do --end;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80);
  return end;
}

/// The length of the beginning of `text` that is ASCII.
size_t AsciiPrefix(std::string_view text);
bool IsValidUtf8(std::string_view text);
/// Every maximal part of an ill-formed sequence becomes U+FFFD (Unicode 15, 3.9), as Python's "replace" does.
std::string ReplaceInvalidUtf8(std::string_view text);

/// White_Space.
bool IsSpace(char32_t code);
/// True for what \w matches: letters, marks, decimal digits, connectors, joiners.
bool IsWord(char32_t code);
/// Categories N*.
bool IsNumber(char32_t code);
/// ASCII punctuation and symbols, and categories P*.
bool IsPunctuation(char32_t code);
/// Categories M*.
bool IsMark(char32_t code);

/// Category Mn.
bool IsNonspacingMark(char32_t code);
/// Categories Cc, Cf and Co: controls, formats, private use.
bool IsOther(char32_t code);
/// The ideographs that BERT puts spaces around: the unified ones and the compatibility ones, up to extension E.
bool IsBertIdeograph(char32_t code);

/// Full lower case without context, as Rust's char::to_lowercase.
void AppendLower(char32_t code, std::string* to);

/// Full lower case, as Python's str.lower: "Σ" at the end of a word becomes "ς".
std::string Lower(std::string_view text);

/// Letters with case, by their category; and characters skipped in search of one (marks, formats, modifiers,
/// apostrophes).
bool IsCased(char32_t code);
bool IsCaseIgnorable(char32_t code);

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };
/// `text` must be valid UTF-8. Linear in its length; runs that are in the form are copied.
std::string Normalize(std::string_view text, NormalForm form);

/// The end of the grapheme cluster (UAX 29) at `at` of valid UTF-8.
size_t GraphemeEnd(std::string_view text, size_t at);

}  // namespace qkv::text
