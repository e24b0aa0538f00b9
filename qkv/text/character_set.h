// Sets of characters as Oniguruma's patterns describe them, in PCRE2's language: \p{…}, \w, [:alpha:], and unions,
// intersections and complements of them, which PCRE2 10.42 cannot write within brackets.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/text/unicode_versions.h"

namespace qkv::text {

/// A set of characters: an expression of what PCRE2 can write between brackets.
struct CharacterSet {
  enum class Kind { kItems, kUnion, kIntersection };
  Kind kind = Kind::kItems;
  bool negated = false;
  std::string items;             // kItems: the text between PCRE2's brackets
  std::vector<CodeRange> newer;  // kItems: members that PCRE2's tables lack
  std::vector<CharacterSet> of;  // kUnion, kIntersection: the parts, which are not empty

  bool IsItems() const { return kind == Kind::kItems && !negated; }
};

CharacterSet Items(std::string_view items);
CharacterSet Not(CharacterSet set);
/// Parts that are plain items become one; without parts the set is empty.
CharacterSet Union(std::vector<CharacterSet> parts);
CharacterSet Intersection(std::vector<CharacterSet> parts);

/// What matches one character of the set, as one item of a PCRE2 pattern. It takes one way only: no backtracking.
std::string ToPcre2(const CharacterSet& set);

/// \w, \s, \d or \h, by the letter. Oniguruma's \w has six numbers of Latin-1 more outside of brackets.
CharacterSet ShorthandSet(char letter, bool in_brackets);

/// \S as a list of ranges.
CharacterSet NoSpaces();

/// The set of [:name:]; nothing if Oniguruma has no such name.
std::optional<CharacterSet> PosixSet(std::string_view name);

/// The set of \p{name}: general categories, scripts, some properties and the names of POSIX, without regard to case,
/// spaces, '-' and '_'; nothing for a name that is not known here.
std::optional<CharacterSet> PropertySet(std::string_view name, bool in_brackets);

}  // namespace qkv::text
