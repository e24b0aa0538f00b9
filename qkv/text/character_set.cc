#include "qkv/text/character_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "qkv/text/pattern_properties.h"
#include "qkv/text/unicode_versions.h"

namespace qkv::text {
namespace {

using Kind = CharacterSet::Kind;

// As in Oniguruma and Rust; PCRE2's \s has U+180E too, its \w has neither marks nor connectors.
constexpr std::string_view kSpaces = R"(\x{9}-\x{d}\x{20}\x{85}\p{Z})";
constexpr std::string_view kWords = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc})";
constexpr std::string_view kNoSpaces = R"(\x{0}-\x{8}\x{e}-\x{1f}!-\x{84}\x{86}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff})"
                                       R"(\x{200b}-\x{2027}\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff})"
                                       R"(\x{3001}-\x{10ffff})";
// Oniguruma counts these digits and fractions too, but not within brackets.
constexpr std::string_view kLatinNumbers = R"(\x{b2}\x{b3}\x{b9}\x{bc}-\x{be})";
constexpr std::string_view kHexDigits = "0-9A-Fa-f";
constexpr std::string_view kAnyCharacter = "(?s:.)";

std::string Negatable(const CharacterSet& set, bool negated);

// \x{a}-\x{b}\x{c}…
std::vector<CodeRange> ParseRanges(std::string_view text) {
  std::vector<CodeRange> ranges;
  while (!text.empty()) {
    const bool continues = text.starts_with('-');
    text.remove_prefix(continues ? 4 : 3);
    char32_t code = 0;
    for (; text.front() != '}'; text.remove_prefix(1)) {
      code = code * 16 + static_cast<char32_t>(text[0] <= '9' ? text[0] - '0' : text[0] - 'a' + 10);
    }
    text.remove_prefix(1);
    if (continues) {
      ranges.back().last = code;
    } else {
      ranges.push_back({code, code});
    }
  }
  return ranges;
}

// PCRE2 looks at one range after the other, so those that touch become one.
std::string ToText(std::vector<CodeRange> ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const CodeRange& a, const CodeRange& b) { return a.first < b.first; });
  std::string to;
  for (size_t i = 0; i < ranges.size();) {
    auto [first, last] = ranges[i];
    for (++i; i < ranges.size() && ranges[i].first <= last + 1; ++i) last = std::max(last, ranges[i].last);
    to += fmt::format("\\x{{{:x}}}", static_cast<unsigned>(first));
    if (last > first) to += fmt::format("-\\x{{{:x}}}", static_cast<unsigned>(last));
  }
  return to;
}

// Where all of `parts` hold, or, with `negated`, none of them does.
std::string AllOf(const std::vector<CharacterSet>& parts, bool negated) {
  std::string to = "(?:";
  for (size_t i = 0; i + 1 < parts.size(); ++i) to.append("(?=").append(Negatable(parts[i], negated)).append(")");
  return to + Negatable(parts.back(), negated) + ")";
}

// Atomic: a character that two of them match must not be tried twice.
std::string AnyOf(const std::vector<CharacterSet>& parts, bool negated) {
  std::string to = "(?>";
  for (const CharacterSet& part : parts) {
    if (&part != &parts.front()) to += '|';
    to += Negatable(part, negated);
  }
  return to + ")";
}

std::string Negatable(const CharacterSet& set, bool negated) {
  const bool complement = set.negated != negated;
  switch (set.kind) {
    case Kind::kItems:
      if (!set.items.empty()) return (complement ? "[^" : "[") + set.items + ToText(set.newer) + "]";
      return complement ? std::string(kAnyCharacter) : R"([^\x{0}-\x{10ffff}])";
    case Kind::kUnion:
      return complement ? AllOf(set.of, true) : AnyOf(set.of, false);
    case Kind::kIntersection:
      return complement ? AnyOf(set.of, true) : AllOf(set.of, false);
  }
  return "";
}

std::string Normal(std::string_view name) {
  std::string normal;
  for (const char c : name) {
    if (c == ' ' || c == '_' || c == '-') continue;
    normal += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return normal;
}

// True if `names`, separated by '|', has `name`.
bool HasName(std::string_view names, std::string_view name) {
  while (!names.empty()) {
    const size_t end = std::min(names.find('|'), names.size());
    if (names.substr(0, end) == name) return true;
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return false;
}

std::optional<CharacterSet> TableSet(std::string_view name) {
  const auto* row = std::find_if(std::begin(kPatternProperties), std::end(kPatternProperties),
                                 [&](const PatternProperty& property) { return HasName(property.names, name); });
  if (row == std::end(kPatternProperties)) return std::nullopt;
  CharacterSet set{.items = std::string(row->base), .newer = ParseRanges(row->more)};
  if (row->less.empty()) return set;
  return Intersection({std::move(set), Not(Items(row->less))});
}

// The union of the named sets, all in the table.
CharacterSet UnionOf(std::initializer_list<std::string_view> names) {
  std::vector<CharacterSet> parts;
  for (const std::string_view name : names) parts.push_back(*TableSet(name));
  return Union(std::move(parts));
}

}  // namespace

CharacterSet Items(std::string_view items) { return {.items = std::string(items)}; }

CharacterSet Not(CharacterSet set) {
  set.negated = !set.negated;
  return set;
}

CharacterSet Union(std::vector<CharacterSet> parts) {
  CharacterSet items, all{.kind = Kind::kUnion};
  for (CharacterSet& part : parts) {
    if (part.IsItems()) {
      items.items += part.items;
      items.newer.insert(items.newer.end(), part.newer.begin(), part.newer.end());
    } else {
      all.of.push_back(std::move(part));
    }
  }
  if (all.of.empty()) return items;
  if (!items.items.empty()) all.of.insert(all.of.begin(), std::move(items));
  return all.of.size() == 1 ? std::move(all.of.front()) : all;
}

CharacterSet Intersection(std::vector<CharacterSet> parts) {
  if (parts.size() == 1) return std::move(parts.front());
  return {.kind = Kind::kIntersection, .of = std::move(parts)};
}

std::string ToPcre2(const CharacterSet& set) { return Negatable(set, false); }

CharacterSet ShorthandSet(char letter, bool in_brackets) {
  switch (letter) {
    case 'w':
      return {.items = std::string(kWords).append(in_brackets ? "" : kLatinNumbers), .newer = ParseRanges(kNewWord)};
    case 's':
      return Items(kSpaces);
    case 'd':
      return *TableSet("nd");
    default:
      return Items(kHexDigits);
  }
}

CharacterSet NoSpaces() { return Items(kNoSpaces); }

std::optional<CharacterSet> PosixSet(std::string_view name) {
  if (name == "alnum") return UnionOf({"alphabetic", "nd"});
  if (name == "alpha") return TableSet("alphabetic");
  if (name == "ascii") return Items(R"(\x{0}-\x{7f})");
  if (name == "blank") return Items(R"(\x{9}\p{Zs})");
  if (name == "cntrl") return TableSet("cc");
  if (name == "digit") return TableSet("nd");
  if (name == "graph") return Not(Union({Items(R"(\p{Cc}\p{Z})"), Not(*TableSet("assigned"))}));
  if (name == "lower") return TableSet("lowercase");
  if (name == "print") return Not(Union({Items(R"(\p{Cc}\p{Zl}\p{Zp})"), Not(*TableSet("assigned"))}));
  if (name == "punct") return UnionOf({"p", "s"});
  if (name == "space") return ShorthandSet('s', true);
  if (name == "upper") return TableSet("uppercase");
  if (name == "word") return ShorthandSet('w', true);
  if (name == "xdigit") return ShorthandSet('h', true);
  return std::nullopt;
}

std::optional<CharacterSet> PropertySet(std::string_view name, bool in_brackets) {
  const std::string normal = Normal(name);
  if (normal == "word") return ShorthandSet('w', in_brackets);
  if (normal == "punct") return TableSet("p");  // unlike [:punct:]
  if (normal == "posixpunct") return PosixSet("punct");
  if (auto set = PosixSet(normal)) return set;
  if (normal == "any") return Not(CharacterSet());
  if (normal == "c" || normal == "other") return Union({UnionOf({"cc", "cf", "co"}), Not(*TableSet("assigned"))});
  if (normal == "cn" || normal == "unassigned") return Not(*TableSet("assigned"));
  if (normal == "lc" || normal == "casedletter") return UnionOf({"lu", "ll", "lt"});
  return TableSet(normal);
}

}  // namespace qkv::text
