// The parser behind TranslatePattern: pattern.cc has groups, repeats and escapes, pattern_class.cc brackets.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "qkv/core/error.h"
#include "qkv/text/character_set.h"

namespace qkv::text {

inline constexpr std::string_view kNotSupported = "is not supported";

/// Groups and brackets within each other; PCRE2 takes 250 parentheses.
inline constexpr int kMaxDepth = 100;

/// Options that a pattern sets for a part of itself: (?imx).
struct PatternOptions {
  bool ignore_case = false, dot_all = false, extended = false;
};

class PatternParser {
 public:
  /// Where a pattern has named groups, other groups do not capture.
  PatternParser(std::string_view pattern, std::string_view where, bool has_names)
      : pattern_(pattern), where_(where), has_names_(has_names) {}

  /// The whole pattern in PCRE2's language.
  std::string Translate();
  /// Whether the pattern that was translated has named groups.
  bool HasNames() const { return !names_.empty(); }

 private:
  enum class Term { kRepeatable, kAnchor, kNothing };
  struct Reference {
    int group;
    size_t at;
  };
  struct Interval {
    int least, most;  // -1: any number
    size_t end;
  };
  struct ClassPart;

  bool AtEnd() const { return at_ == pattern_.size(); }
  bool Next(std::string_view text) const { return pattern_.substr(at_).starts_with(text); }
  bool Skip(std::string_view text);
  // The character at the place, which is passed.
  char32_t Take();
  // "\y at byte 3 is not supported": the text from `begin` to the place that was read last.
  [[noreturn]] void Refuse(size_t begin, std::string_view what) const;

  void Alternatives(PatternOptions options);
  void OneTerm(PatternOptions options);
  Term Item(PatternOptions options);
  Term Escape(size_t begin, PatternOptions options);
  Term PlainEscape(size_t begin, char32_t letter);
  Term Group(size_t begin, PatternOptions options);
  Term OptionGroup(size_t begin, PatternOptions options);
  void Body(size_t begin, std::string_view head, PatternOptions options);
  void Capture(size_t begin, PatternOptions options);
  std::string Name(size_t begin, char end);
  void NamedReference(size_t begin, PatternOptions options);
  void AddReference(size_t begin, int group, PatternOptions options);
  void Repeats(size_t start, Term term, PatternOptions options);
  std::optional<Interval> ReadInterval() const;
  void SkipIgnored(PatternOptions options);
  void Literal(char32_t code, size_t begin, PatternOptions options);
  void AddSet(const CharacterSet& set, PatternOptions options);
  // Escapes that are one character:
  // , \x41, \x{…}, \u0041, \012, \*; nothing for others. The place is behind the escape's first letter, which is
  // `letter`.
  std::optional<char32_t> CodeEscape(size_t begin, char32_t letter);
  char32_t HexEscape(size_t begin, size_t least, size_t most);
  // \w, \p{…} and the like; nothing for others.
  std::optional<CharacterSet> SetEscape(size_t begin, char32_t letter, bool in_brackets);
  CharacterSet Property(size_t begin, bool negated, bool in_brackets);

  // The content of a bracket, up to its closing one.
  CharacterSet Class(size_t begin, PatternOptions options);
  void ClassItem(ClassPart* part, PatternOptions options);
  void Dash(size_t begin, ClassPart* part, PatternOptions options);
  void AddValue(size_t begin, char32_t code, ClassPart* part, PatternOptions options);
  void AddToClass(size_t begin, CharacterSet set, ClassPart* part);
  bool AtPosixBracket() const;
  CharacterSet PosixBracket(size_t begin);

  std::string_view pattern_, where_;
  bool has_names_;
  size_t at_ = 0;
  std::string to_;
  int depth_ = 0, look_arounds_ = 0, groups_ = 0;
  std::vector<int> open_groups_;
  std::vector<std::pair<std::string, int>> names_;
  std::vector<Reference> references_;
  char32_t last_literal_ = 0;  // the case-insensitive character in front, which may fold together with the next
};

/// Whether the character's case folds to several characters, or folds in versions of Unicode that PCRE2 lacks.
bool HasUnusualFold(char32_t first, char32_t last);

/// A character for PCRE2, outside of brackets and within.
void AppendPcre2(char32_t code, std::string* to);

}  // namespace qkv::text
