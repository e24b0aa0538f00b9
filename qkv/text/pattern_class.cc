// Brackets: ranges, sets, brackets within brackets, and their intersections.
#include <utility>

#include "qkv/text/pattern_parser.h"

namespace qkv::text {

// What stands between an opening bracket or && and the next && or the closing bracket.
struct PatternParser::ClassPart {
  // What the last item was: a character that a range may begin with, the dash of a range, a range or an inner class,
  // or a set, behind which no dash may stand.
  enum class Last { kNothing, kValue, kDash, kRange, kSet };
  Last last = Last::kNothing;
  char32_t value = 0;
  std::string items;
  std::vector<CharacterSet> sets;

  void Flush() {
    if (last == Last::kValue) AppendPcre2(value, &items);
  }
  CharacterSet Finish() {
    Flush();
    sets.push_back(Items(items));
    return Union(std::move(sets));
  }
};

CharacterSet PatternParser::Class(size_t begin, PatternOptions options) {
  if (++depth_ > kMaxDepth) Refuse(begin, "has brackets within brackets that are too deep");
  const bool negated = Skip("^");
  std::vector<CharacterSet> parts;
  ClassPart part;
  if (Next("]")) {  // stands for itself
    ++at_;
    AddValue(at_ - 1, ']', &part, options);
  }
  while (!Skip("]")) {
    if (AtEnd()) Refuse(begin, "has no closing bracket");
    const size_t at = at_;
    if (Skip("&&")) {
      if (options.ignore_case) Refuse(at, "without regard to case is not supported");
      parts.push_back(part.Finish());
      part = {};
    } else {
      ClassItem(&part, options);
    }
  }
  --depth_;
  parts.push_back(part.Finish());
  CharacterSet set = Intersection(std::move(parts));
  return negated ? Not(std::move(set)) : set;
}

void PatternParser::ClassItem(ClassPart* part, PatternOptions options) {
  const size_t begin = at_;
  if (AtPosixBracket()) {
    CharacterSet set = PosixBracket(begin);
    if (options.ignore_case) Refuse(begin, "without regard to case is not supported");
    return AddToClass(begin, std::move(set), part);
  }
  const char32_t c = Take();
  if (c == '[') {
    if (options.ignore_case) Refuse(begin, "within brackets and without regard to case is not supported");
    part->Flush();
    part->sets.push_back(Class(begin, options));
    part->last = ClassPart::Last::kRange;
  } else if (c == '-') {
    Dash(begin, part, options);
  } else if (c != '\\') {
    AddValue(begin, c, part, options);
  } else {
    if (AtEnd()) Refuse(begin, "ends the pattern");
    const char32_t letter = Take();
    if (letter == 'b') return AddValue(begin, '\b', part, options);
    if (const auto code = CodeEscape(begin, letter)) return AddValue(begin, *code, part, options);
    auto set = SetEscape(begin, letter, /*in_brackets=*/true);
    if (!set) Refuse(begin, "within brackets is not supported");
    // Case does not change these; others get members of one case, or of several characters.
    if (options.ignore_case && letter != 's' && letter != 'd' && letter != 'h') {
      Refuse(begin, "within brackets and without regard to case is not supported");
    }
    AddToClass(begin, std::move(*set), part);
  }
}

// A dash makes a range or stands for itself.
void PatternParser::Dash(size_t begin, ClassPart* part, PatternOptions options) {
  using Last = ClassPart::Last;
  const bool at_end = Next("]") || Next("&&");
  switch (part->last) {
    case Last::kNothing:
    case Last::kDash:
      return AddValue(begin, '-', part, options);
    case Last::kValue:
      if (at_end) return AddValue(begin, '-', part, options);
      if (Next("[")) Refuse(begin, "before a bracket is not supported; write \\-");
      part->last = Last::kDash;
      return;
    case Last::kRange:
      if (Next("-")) Refuse(begin, "before another dash is not supported");
      return AddValue(begin, '-', part, options);
    case Last::kSet:
      if (!Next("]")) Refuse(begin, "behind a set is not supported; write \\-");
      return AddValue(begin, '-', part, options);
  }
}

void PatternParser::AddValue(size_t begin, char32_t code, ClassPart* part, PatternOptions options) {
  const bool range = part->last == ClassPart::Last::kDash;
  const char32_t first = range ? part->value : code;
  if (first > code) Refuse(begin, "ends a range that is empty");
  if (options.ignore_case && HasUnusualFold(first, code)) {
    Refuse(begin, "without regard to case also matches text of another length, which is not supported");
  }
  if (!range) {
    part->Flush();
    part->value = code;
    part->last = ClassPart::Last::kValue;
    return;
  }
  AppendPcre2(first, &part->items);
  part->items += '-';
  AppendPcre2(code, &part->items);
  part->last = ClassPart::Last::kRange;
}

void PatternParser::AddToClass(size_t begin, CharacterSet set, ClassPart* part) {
  if (part->last == ClassPart::Last::kDash) Refuse(begin, "ends a range");
  part->Flush();
  part->sets.push_back(std::move(set));
  part->last = ClassPart::Last::kSet;
}

// [:name:], unless a bracket closes before :].
bool PatternParser::AtPosixBracket() const {
  if (!Next("[:")) return false;
  for (size_t at = at_ + 2; at < pattern_.size(); ++at) {
    if (pattern_.substr(at).starts_with(":]")) return true;
    if (pattern_[at] == ']') return false;
    if (pattern_[at] == '\\') ++at;
  }
  return false;
}

CharacterSet PatternParser::PosixBracket(size_t begin) {
  at_ += 2;
  const bool negated = Skip("^");
  const size_t end = pattern_.find(":]", at_);  // there is one: AtPosixBracket
  const auto set = PosixSet(pattern_.substr(at_, end - at_));
  at_ = end + 2;
  if (!set) Refuse(begin, "is not a class of POSIX");
  return negated ? Not(*set) : *set;
}

}  // namespace qkv::text
