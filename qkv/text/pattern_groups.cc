// Groups, references and escapes.
#include <algorithm>

#include "qkv/text/pattern_parser.h"
#include "qkv/text/unicode.h"

namespace qkv::text {
namespace {

bool IsDecimal(char32_t c) { return c >= '0' && c <= '9'; }

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

// \b or, with `inside`, \B. PCRE2's own do not count marks as parts of words.
std::string WordBoundary(bool inside) {
  const std::string word = ToPcre2(ShorthandSet('w', /*in_brackets=*/false));
  return fmt::format("(?-i:(?<={0})(?{1}{0})|(?<!{0})(?{2}{0}))", word, inside ? '=' : '!', inside ? '!' : '=');
}

}  // namespace

PatternParser::Term PatternParser::Group(size_t begin, PatternOptions options) {
  if (Next("*")) {
    ++at_;
    Refuse(begin, kNotSupported);
  }
  if (!Skip("?")) {
    if (has_names_) {
      Body(begin, "(?:", options);
    } else {
      Capture(begin, options);
    }
    return Term::kRepeatable;
  }
  for (const std::string_view head : {":", ">"}) {
    if (!Skip(head)) continue;
    Body(begin, std::string("(?").append(head), options);
    return Term::kRepeatable;
  }
  for (const std::string_view head : {"=", "!", "<=", "<!"}) {
    if (!Skip(head)) continue;
    ++look_arounds_;
    Body(begin, std::string("(?").append(head), options);
    --look_arounds_;
    return Term::kRepeatable;  // which the original refuses
  }
  if (Skip("<") || Skip("'")) {
    names_.emplace_back(Name(begin, pattern_[at_ - 1] == '<' ? '>' : '\''), groups_ + 1);
    Capture(begin, options);
    return Term::kRepeatable;
  }
  return OptionGroup(begin, options);
}

// (?i:…), or (?i) for the rest of the group around it, further alternatives too.
PatternParser::Term PatternParser::OptionGroup(size_t begin, PatternOptions options) {
  const bool was_ignoring = options.ignore_case;
  bool value = true;
  while (!Next(":") && !Next(")")) {
    if (AtEnd()) Refuse(begin, "has no closing parenthesis");
    switch (Take()) {
      case '-':
        value = false;
        break;
      case 'i':
        options.ignore_case = value;
        break;
      case 'm':
        options.dot_all = value;
        break;
      case 'x':
        options.extended = value;
        break;
      default:
        Refuse(begin, kNotSupported);
    }
  }
  std::string_view head = "(?:";
  if (options.ignore_case != was_ignoring) head = options.ignore_case ? "(?i:" : "(?-i:";
  if (Skip(":")) {
    Body(begin, head, options);
    return Term::kRepeatable;
  }
  ++at_;
  to_ += head;
  Alternatives(options);
  to_ += ')';
  return Term::kNothing;
}

void PatternParser::Body(size_t begin, std::string_view head, PatternOptions options) {
  to_ += head;
  Alternatives(options);
  if (!Skip(")")) Refuse(begin, "has no closing parenthesis");
  to_ += ')';
}

void PatternParser::Capture(size_t begin, PatternOptions options) {
  open_groups_.push_back(++groups_);
  Body(begin, "(", options);
  open_groups_.pop_back();
}

std::string PatternParser::Name(size_t begin, char end) {
  const size_t close = pattern_.find(end, at_);
  if (close == std::string_view::npos) Refuse(begin, "is a name without an end");
  const std::string_view name = pattern_.substr(at_, close - at_);
  at_ = close + 1;
  const bool is_name = !name.empty() && !IsDecimal(CharacterAt(name, 0).code);
  for (size_t at = 0; at < name.size();) {
    const Character character = CharacterAt(name, at);
    if (!is_name || !IsWord(character.code)) Refuse(begin, "is not a name");
    at = character.end;
  }
  if (!is_name) Refuse(begin, "is not a name");
  return std::string(name);
}

// \k<name>, \k<2>, \k<-1>, behind the k.
void PatternParser::NamedReference(size_t begin, PatternOptions options) {
  const char end = Next("<") ? '>' : '\'';
  if (!Skip("<") && !Skip("'")) Refuse(begin, kNotSupported);
  const bool backwards = Skip("-");
  int group = 0;
  if (!AtEnd() && IsDecimal(static_cast<unsigned char>(pattern_[at_]))) {
    if (has_names_) Refuse(begin, "refers to a number where groups have names");
    for (; !AtEnd() && IsDecimal(static_cast<unsigned char>(pattern_[at_])); ++at_) {
      group = std::min(group * 10 + (pattern_[at_] - '0'), 1 << 20);
    }
    if (!Skip(std::string_view(&end, 1))) Refuse(begin, kNotSupported);
    AddReference(begin, backwards ? groups_ + 1 - group : group, options);
    return;
  }
  if (backwards) Refuse(begin, kNotSupported);
  const std::string name = Name(begin, end);
  for (const auto& [known, number] : names_) {
    if (known != name) continue;
    if (group != 0) Refuse(begin, "refers to a name of two groups, which is not supported");
    group = number;
  }
  AddReference(begin, group, options);
}

void PatternParser::AddReference(size_t begin, int group, PatternOptions options) {
  if (group < 1) Refuse(begin, "refers to a group that does not exist");
  // Oniguruma's meaning of these differs.
  if (std::find(open_groups_.begin(), open_groups_.end(), group) != open_groups_.end()) {
    Refuse(begin, "refers to the group that it is in, which is not supported");
  }
  if (options.ignore_case) Refuse(begin, "without regard to case is not supported");
  references_.push_back({group, begin});
  to_ += fmt::format("\\g{{{}}}", group);
  last_literal_ = 0;
}

PatternParser::Term PatternParser::Escape(size_t begin, PatternOptions options) {
  const char32_t letter = Take();
  if (letter >= '1' && letter <= '9') {
    int group = static_cast<int>(letter - '0');
    for (; !AtEnd() && IsDecimal(static_cast<unsigned char>(pattern_[at_])); ++at_) {
      group = std::min(group * 10 + (pattern_[at_] - '0'), 1 << 20);
    }
    if (has_names_) Refuse(begin, "refers to a number where groups have names");
    if (group > 9 && group > groups_) Refuse(begin, kNotSupported);  // an octal number
    AddReference(begin, group, options);
    return Term::kRepeatable;
  }
  if (const auto code = CodeEscape(begin, letter)) {
    Literal(*code, begin, options);
    return Term::kRepeatable;
  }
  if (const auto set = SetEscape(begin, letter, /*in_brackets=*/false)) {
    AddSet(*set, options);
    return Term::kRepeatable;
  }
  if (letter == 'k') {
    NamedReference(begin, options);
    return Term::kRepeatable;
  }
  if (letter == 'K' && look_arounds_ > 0) Refuse(begin, "within a look-around is not supported");
  return PlainEscape(begin, letter);
}

// Escapes that are PCRE2's own, or the same text wherever they stand.
PatternParser::Term PatternParser::PlainEscape(size_t begin, char32_t letter) {
  last_literal_ = 0;
  switch (letter) {
    case 'A':
    case 'z':
    case 'Z':
    case 'G':
    case 'K':
      to_ += '\\';
      to_ += static_cast<char>(letter);
      return Term::kAnchor;
    case 'b':
    case 'B':
      to_ += WordBoundary(letter == 'B');
      return Term::kAnchor;
    case 'N':
      to_ += R"([^\x{a}])";
      return Term::kRepeatable;
    case 'O':
      to_ += "(?s:.)";
      return Term::kRepeatable;
    case 'R':
      to_ += R"((?>\x{d}\x{a}|[\x{a}-\x{d}\x{85}\x{2028}\x{2029}]))";
      return Term::kRepeatable;
    default:
      Refuse(begin, kNotSupported);
  }
}

std::optional<char32_t> PatternParser::CodeEscape(size_t begin, char32_t letter) {
  switch (letter) {
    case 'a':
      return '\a';
    case 'e':
      return 0x1b;
    case 'f':
      return '\f';
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    case 'v':
      return '\v';
    case 'u':
      return HexEscape(begin, 4, 4);
    case 'x': {
      if (!Skip("{")) {
        const char32_t code = HexEscape(begin, 1, 2);
        if (code >= 0x80) Refuse(begin, "is a byte of a character; write the character as \\x{…}");
        return code;
      }
      const char32_t code = HexEscape(begin, 1, 8);
      if (!Skip("}")) Refuse(begin, kNotSupported);
      return code;
    }
    case '0': {
      char32_t code = 0;
      for (int i = 0; i < 2 && !AtEnd() && pattern_[at_] >= '0' && pattern_[at_] <= '7'; ++i) {
        code = code * 8 + static_cast<char32_t>(pattern_[at_++] - '0');
      }
      return code;
    }
    default:
      if (IsDecimal(letter) || (letter >= 'A' && letter <= 'Z') || (letter >= 'a' && letter <= 'z'))
        return std::nullopt;
      return letter;
  }
}

char32_t PatternParser::HexEscape(size_t begin, size_t least, size_t most) {
  uint32_t code = 0;
  size_t count = 0;
  for (; count < most && !AtEnd() && HexDigit(pattern_[at_]) >= 0; ++count, ++at_) {
    code = code * 16 + static_cast<uint32_t>(HexDigit(pattern_[at_]));
  }
  if (count < least) Refuse(begin, "has too few hexadecimal digits");
  if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) Refuse(begin, "is not a character");
  return code;
}

std::optional<CharacterSet> PatternParser::SetEscape(size_t begin, char32_t letter, bool in_brackets) {
  switch (letter) {
    case 'd':
    case 'h':
    case 's':
    case 'w':
      return ShorthandSet(static_cast<char>(letter), in_brackets);
    case 'S':
      // One list of ranges within brackets, which is faster than the complement.
      if (in_brackets) return NoSpaces();
      [[fallthrough]];
    case 'D':
    case 'H':
    case 'W':
      return Not(ShorthandSet(static_cast<char>(letter | 0x20), in_brackets));
    case 'p':
    case 'P':
      return Property(begin, letter == 'P', in_brackets);
    default:
      return std::nullopt;
  }
}

// Behind \p or \P.
CharacterSet PatternParser::Property(size_t begin, bool negated, bool in_brackets) {
  if (!Skip("{")) Refuse(begin, "without braces is not supported");
  if (Skip("^")) negated = !negated;
  const size_t end = pattern_.find('}', at_);
  if (end == std::string_view::npos) Refuse(begin, "has no closing brace");
  const auto set = PropertySet(pattern_.substr(at_, end - at_), in_brackets);
  at_ = end + 1;
  if (!set) Refuse(begin, "is a property that is not supported");
  return negated ? Not(*set) : *set;
}

}  // namespace qkv::text
