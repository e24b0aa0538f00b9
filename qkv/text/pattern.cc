#include "qkv/text/pattern.h"

#include <algorithm>
#include <iterator>

#include "qkv/text/pattern_parser.h"
#include "qkv/text/unicode.h"
#include "qkv/text/unicode_versions.h"

namespace qkv::text {
namespace {

// Repeats of a repeat.
constexpr int kMaxRepeats = 8;
constexpr int kMostTimes = 65535;  // PCRE2's limit
// PCRE2 compiles to at most 64 KiB, which is less than this text.
constexpr size_t kMaxTranslated = size_t{1} << 20;

// Characters whose case folds to several: ß, ŉ, ﬁ …; and those whose other case is newer than PCRE2's tables.
constexpr CodeRange kUnusualFolds[] = {
    {0xdf, 0xdf},     {0x130, 0x130},   {0x149, 0x149},   {0x19b, 0x19b},   {0x1f0, 0x1f0},     {0x264, 0x264},
    {0x390, 0x390},   {0x3b0, 0x3b0},   {0x587, 0x587},   {0x1c89, 0x1c8a}, {0x1e96, 0x1e9a},   {0x1e9e, 0x1e9e},
    {0x1f50, 0x1f50}, {0x1f52, 0x1f52}, {0x1f54, 0x1f54}, {0x1f56, 0x1f56}, {0x1f80, 0x1faf},   {0x1fb2, 0x1fb4},
    {0x1fb6, 0x1fb7}, {0x1fbc, 0x1fbc}, {0x1fc2, 0x1fc4}, {0x1fc6, 0x1fc7}, {0x1fcc, 0x1fcc},   {0x1fd2, 0x1fd3},
    {0x1fd6, 0x1fd7}, {0x1fe2, 0x1fe4}, {0x1fe6, 0x1fe7}, {0x1ff2, 0x1ff4}, {0x1ff6, 0x1ff7},   {0x1ffc, 0x1ffc},
    {0xa7cb, 0xa7cd}, {0xa7da, 0xa7dc}, {0xfb00, 0xfb06}, {0xfb13, 0xfb17}, {0x10d50, 0x10d65}, {0x10d70, 0x10d85}};

bool Has(std::u32string_view some, char32_t code) { return some.find(code) != std::u32string_view::npos; }

// Whether the two, in any case, may be the folding of one character: "ss" of ß, "fi" of ﬁ. Some pairs too many.
bool MayFoldTogether(char32_t first, char32_t second) {
  // What stands second in the foldings of Latin and Greek letters with marks, and of Greek ones with iota.
  if (Has(U"\u0307\u030a\u030c\u0331\u0308\u02be\u0313\u0342\u0345\u0399\u03b9\u1fbe", second)) return true;
  if (Has(U"fF", first)) return Has(U"fFiIlL", second);
  if (Has(U"sS\u017f", first)) return Has(U"sS\u017ftT", second);
  if (first == 0x2bc) return Has(U"nN", second);
  return Has(U"\u0565\u0574\u057e\u0535\u0544\u054e", first) &&
         Has(U"\u0582\u0576\u0565\u056b\u056d\u0552\u0546\u0535\u053b\u053d", second);
}

bool IsAlphanumeric(char32_t c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); }

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

bool HasUnusualFold(char32_t first, char32_t last) {
  return std::any_of(std::begin(kUnusualFolds), std::end(kUnusualFolds),
                     [&](const CodeRange& range) { return range.first <= last && first <= range.last; });
}

void AppendPcre2(char32_t code, std::string* to) {
  if (code >= 0x80 || IsAlphanumeric(code) || code == ' ') {
    AppendUtf8(code, to);
  } else {
    *to += fmt::format("\\x{{{:x}}}", static_cast<unsigned>(code));
  }
}

std::string TranslatePattern(std::string_view pattern, std::string_view where) {
  PatternParser parser(pattern, where, /*has_names=*/false);
  std::string translated = parser.Translate();
  return parser.HasNames() ? PatternParser(pattern, where, /*has_names=*/true).Translate() : translated;
}

bool PatternParser::Skip(std::string_view text) {
  const bool is_next = Next(text);
  if (is_next) at_ += text.size();
  return is_next;
}

char32_t PatternParser::Take() {
  const Character character = CharacterAt(pattern_, at_);
  at_ = character.end;
  return character.code;
}

void PatternParser::Refuse(size_t begin, std::string_view what) const {
  constexpr size_t kShown = 40;
  Fail("{}: expected a regular expression, got \"{}\": {} at byte {} {}", where_, pattern_,
       pattern_.substr(begin, std::min(kShown, at_ - begin)), begin, what);
}

std::string PatternParser::Translate() {
  Require(IsValidUtf8(pattern_), "{}: expected a regular expression in UTF-8, got \"{}\"", where_, pattern_);
  Alternatives({});
  if (!AtEnd()) {
    ++at_;
    Refuse(at_ - 1, "closes no group");
  }
  for (const Reference& reference : references_) {
    if (reference.group > groups_) Refuse(reference.at, "refers to a group that does not exist");
  }
  return std::move(to_);
}

// Up to the parenthesis that closes the group, or the end.
void PatternParser::Alternatives(PatternOptions options) {
  if (++depth_ > kMaxDepth) Refuse(0, "has groups within groups that are too deep");
  while (!AtEnd() && !Next(")")) {
    if (Skip("|")) {
      to_ += '|';
      last_literal_ = 0;
    } else {
      OneTerm(options);
    }
  }
  --depth_;
}

void PatternParser::OneTerm(PatternOptions options) {
  SkipIgnored(options);
  if (AtEnd() || Next(")") || Next("|")) return;
  const size_t start = to_.size();
  const Term term = Item(options);
  Repeats(start, term, options);
  if (to_.size() > kMaxTranslated) Refuse(0, "is too long");
}

// Comments and, with the option x, blanks.
void PatternParser::SkipIgnored(PatternOptions options) {
  while (!AtEnd()) {
    const size_t begin = at_;
    if (Skip("(?#")) {
      while (!AtEnd() && !Next(")")) at_ = std::min(at_ + (Next("\\") ? 2 : 1), pattern_.size());
      if (!Skip(")")) Refuse(begin, "has no closing parenthesis");
    } else if (options.extended && Skip("#")) {
      at_ = std::min(pattern_.find('\n', at_), pattern_.size());
    } else if (options.extended && std::string_view(" \t\n\r\f").find(pattern_[at_]) != std::string_view::npos) {
      ++at_;
    } else {
      return;
    }
  }
}

PatternParser::Term PatternParser::Item(PatternOptions options) {
  const size_t begin = at_;
  if (std::string_view("?*+").find(pattern_[at_]) != std::string_view::npos || ReadInterval()) {
    ++at_;
    Refuse(begin, "has nothing to repeat");
  }
  const char32_t c = Take();
  switch (c) {
    case '\\':
      if (AtEnd()) Refuse(begin, "ends the pattern");
      return Escape(begin, options);
    case '(':
      return Group(begin, options);
    case '[': {
      const CharacterSet set = Class(begin, options);
      to_ += ToPcre2(set);
      last_literal_ = 0;
      return Term::kRepeatable;
    }
    case '.':
      to_ += options.dot_all ? "(?s:.)" : ".";
      last_literal_ = 0;
      return Term::kRepeatable;
    case '^':
      to_ += "(?m:^)";
      return Term::kAnchor;
    case '$':
      to_ += "(?m:$)";
      return Term::kAnchor;
    default:
      Literal(c, begin, options);
      return Term::kRepeatable;
  }
}

void PatternParser::Literal(char32_t code, size_t begin, PatternOptions options) {
  if (options.ignore_case) {
    if (HasUnusualFold(code, code) || MayFoldTogether(last_literal_, code)) {
      Refuse(begin, "without regard to case also matches text of another length, which is not supported");
    }
    last_literal_ = code;
  }
  AppendPcre2(code, &to_);
}

void PatternParser::AddSet(const CharacterSet& set, PatternOptions options) {
  // Sets outside of brackets do not depend on case.
  to_ += options.ignore_case ? "(?-i:" + ToPcre2(set) + ")" : ToPcre2(set);
  last_literal_ = 0;
}

std::optional<PatternParser::Interval> PatternParser::ReadInterval() const {
  if (!Next("{")) return std::nullopt;
  size_t at = at_ + 1;
  const auto number = [&]() -> std::optional<int> {
    if (at == pattern_.size() || !IsDigit(pattern_[at])) return std::nullopt;
    int value = 0;
    for (; at < pattern_.size() && IsDigit(pattern_[at]); ++at) {
      value = std::min(value * 10 + (pattern_[at] - '0'), kMostTimes + 1);
    }
    return value;
  };
  const std::optional<int> least = number();
  std::optional<int> most = least;
  if (at < pattern_.size() && pattern_[at] == ',') {
    ++at;
    most = number();
    if (!most && least) most = -1;
  }
  if (!most || at == pattern_.size() || pattern_[at] != '}') return std::nullopt;  // a brace that stands for itself
  return Interval{.least = least.value_or(0), .most = *most, .end = at + 1};
}

// Repeats of the term that begins at `start` of the translation. One behind another repeats the whole before it.
void PatternParser::Repeats(size_t start, Term term, PatternOptions options) {
  for (int count = 0;; ++count) {
    SkipIgnored(options);
    if (AtEnd()) return;
    const size_t begin = at_;
    const std::optional<Interval> interval = ReadInterval();
    std::string repeat;
    bool fixed = false;
    if (interval) {
      fixed = pattern_.substr(at_, interval->end - at_).find(',') == std::string_view::npos;
      at_ = interval->end;
      if (std::max(interval->least, interval->most) > kMostTimes) Refuse(begin, "repeats more than 65535 times");
      if (interval->most >= 0 && interval->least > interval->most) Refuse(begin, kNotSupported);
      repeat = interval->most < 0 ? fmt::format("{{{},}}", interval->least)
                                  : fmt::format("{{{},{}}}", interval->least, interval->most);
    } else if (Next("?") || Next("*") || Next("+")) {
      repeat = pattern_[at_++];
    } else {
      return;
    }
    if (term == Term::kAnchor) Refuse(begin, "repeats what has no length");
    if (term == Term::kNothing) Refuse(begin, "has nothing to repeat");
    if (count > kMaxRepeats) Refuse(begin, "repeats a repeat too often");
    // Behind an interval + repeats it, and so does ? behind {n}.
    if (!fixed && Skip("?")) {
      repeat += '?';
    } else if (!interval && Skip("+")) {
      repeat += '+';
    }
    if (count > 0) to_.insert(start, "(?:").append(")");
    to_ += repeat;
    last_literal_ = 0;
  }
}

}  // namespace qkv::text
