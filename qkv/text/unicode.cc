#include "qkv/text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <bitset>
#include <cstring>
#include <memory>
#include <numeric>
#include <span>
#include <vector>

#include "qkv/core/error.h"
#include "qkv/core/text.h"
#include "qkv/text/steps.h"
#include "qkv/text/unicode_versions.h"

namespace qkv::text {
namespace {

constexpr char32_t kBmpEnd = 0x10000;
// Approximate steps of normalising a character.
constexpr size_t kFormSteps = 8;

// Hangul jamo that join a preceding one: vowels and final consonants.
constexpr bool IsJoiningJamo(char32_t code) { return code >= 0x1161 && code <= 0x11c2; }
constexpr bool IsHangulSyllable(char32_t code) { return code >= 0xac00 && code <= 0xd7a3; }

utf8proc_option_t OptionsOf(NormalForm form) {
  switch (form) {
    case NormalForm::kNfc:
      return static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    case NormalForm::kNfd:
      return static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE);
    case NormalForm::kNfkc:
      return static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPAT | UTF8PROC_COMPOSE);
    case NormalForm::kNfkd:
      break;
  }
  return static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPAT | UTF8PROC_DECOMPOSE);
}

const utf8proc_property_t& PropertyOf(utf8proc_int32_t code) { return *utf8proc_get_property(code); }

// Orders marks by their classes as utf8proc does, which takes quadratic time: those of one class keep their order.
void OrderMarks(std::span<utf8proc_int32_t> marks, std::vector<utf8proc_int32_t>* ordered) {
  const auto class_of = [](utf8proc_int32_t code) { return static_cast<size_t>(PropertyOf(code).combining_class); };
  constexpr size_t kFew = 16, kClasses = 256;
  if (marks.size() <= kFew) {
    for (size_t i = 1; i < marks.size(); ++i) {
      for (size_t j = i; j > 0 && class_of(marks[j - 1]) > class_of(marks[j]); --j) std::swap(marks[j - 1], marks[j]);
    }
    return;
  }
  StepTally tally;
  std::array<size_t, kClasses + 1> begins{};
  for (const utf8proc_int32_t mark : marks) {
    tally.Add(1);
    ++begins[class_of(mark) + 1];
  }
  std::partial_sum(begins.begin(), begins.end(), begins.begin());
  ordered->resize(marks.size());
  for (const utf8proc_int32_t mark : marks) {
    tally.Add(1);
    (*ordered)[begins[class_of(mark)]++] = mark;
  }
  std::ranges::copy(*ordered, marks.begin());
  tally.Done();
}

// Whether the decomposed character neither moves nor joins with those before it.
bool IsBoundary(utf8proc_int32_t code) {
  const utf8proc_property_t& property = PropertyOf(code);
  return property.combining_class == 0 && (property.comb_index == UINT16_MAX || property.comb_index < 0x8000) &&
         !IsJoiningJamo(static_cast<char32_t>(code));
}

// Brings decomposed characters, which no others join, into the form, and appends and clears them.
void AppendComposed(utf8proc_option_t options, std::vector<utf8proc_int32_t>* codes,
                    std::vector<utf8proc_int32_t>* ordered, std::string* to) {
  for (size_t begin = 0, end = 0; begin < codes->size(); begin = end + 1) {
    end = begin;
    while (end < codes->size() && PropertyOf((*codes)[end]).combining_class != 0) ++end;
    OrderMarks(std::span(*codes).subspan(begin, end - begin), ordered);
  }
  const utf8proc_ssize_t count =
      utf8proc_normalize_utf32(codes->data(), static_cast<utf8proc_ssize_t>(codes->size()), options);
  Require(count >= 0, "normalize: {}", utf8proc_errmsg(count));
  for (utf8proc_ssize_t i = 0; i < count; ++i) AppendUtf8(static_cast<char32_t>((*codes)[static_cast<size_t>(i)]), to);
  codes->clear();
}

// By utf8proc's tables, of any text.
void AppendForm(std::string_view text, NormalForm form, std::string* to) {
  constexpr size_t kAtOnce = 1024;   // characters, unless more depend on each other
  constexpr size_t kMostOfOne = 32;  // characters that one becomes
  const utf8proc_option_t options = OptionsOf(form);
  std::vector<utf8proc_int32_t> codes, ordered;
  StepTally tally;  // of long texts, while they are worked on
  for (size_t at = 0; at < text.size();) {
    const Character character = CharacterAt(text, at);
    at = character.end;
    tally.Add(kFormSteps);
    const size_t before = codes.size();
    codes.resize(before + kMostOfOne);
    int last_boundclass = 0;
    const utf8proc_ssize_t count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(character.code),
                                                           &codes[before], kMostOfOne, options, &last_boundclass);
    Require(count >= 0 && count <= static_cast<utf8proc_ssize_t>(kMostOfOne), "normalize: {}",
            count < 0 ? utf8proc_errmsg(count) : "a character becomes too many");
    codes.resize(before + static_cast<size_t>(count));
    if (before < kAtOnce || count == 0 || !IsBoundary(codes[before])) continue;
    const std::vector<utf8proc_int32_t> next(codes.begin() + static_cast<std::ptrdiff_t>(before), codes.end());
    codes.resize(before);
    AppendComposed(options, &codes, &ordered, to);
    codes = next;
  }
  AppendComposed(options, &codes, &ordered, to);
}

// Whether the character is its own form, and neither moves nor joins with characters before it.
bool IsInert(char32_t code, NormalForm form) {
  const utf8proc_property_t& property = PropertyOf(static_cast<utf8proc_int32_t>(code));
  if (IsInRanges(code, kNotNormalized)) return true;
  const bool composes = form == NormalForm::kNfc || form == NormalForm::kNfkc;
  if (property.combining_class != 0) return false;
  if (composes && !IsBoundary(static_cast<utf8proc_int32_t>(code))) return false;
  if (IsHangulSyllable(code)) return composes;
  if (property.decomp_seqindex == UINT16_MAX) return true;
  std::string alone, mapped;
  AppendUtf8(code, &alone);
  AppendForm(alone, form, &mapped);
  return alone == mapped;
}

// Tables for the Basic Multilingual Plane, made when first used (under a millisecond). Never destroyed: a thread may
// read one while the process exits.
const std::bitset<kBmpEnd>& InertTable(NormalForm form) {
  const auto make = [](NormalForm of) {
    auto* const table = new std::bitset<kBmpEnd>();
    for (char32_t code = 0; code < kBmpEnd; ++code) {
      if (code < 0xd800 || code > 0xdfff) table->set(code, IsInert(code, of));
    }
    return table;
  };
  switch (form) {
    case NormalForm::kNfc: {
      static const auto* const table = make(NormalForm::kNfc);
      return *table;
    }
    case NormalForm::kNfd: {
      static const auto* const table = make(NormalForm::kNfd);
      return *table;
    }
    case NormalForm::kNfkc: {
      static const auto* const table = make(NormalForm::kNfkc);
      return *table;
    }
    case NormalForm::kNfkd:
      break;
  }
  static const auto* const table = make(NormalForm::kNfkd);
  return *table;
}

utf8proc_category_t CategoryOf(char32_t code) { return utf8proc_category(static_cast<utf8proc_int32_t>(code)); }

}  // namespace

size_t AsciiPrefix(std::string_view text) {
  size_t at = 0;
  for (uint64_t word; at + sizeof(word) <= text.size(); at += sizeof(word)) {
    std::memcpy(&word, text.data() + at, sizeof(word));
    if ((word & 0x8080808080808080) != 0) break;
  }
  while (at < text.size() && static_cast<unsigned char>(text[at]) < 0x80) ++at;
  return at;
}

bool IsValidUtf8(std::string_view text) {
  for (;;) {
    text.remove_prefix(AsciiPrefix(text));
    if (text.empty()) return true;
    const size_t length = CharacterLength(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
}

std::string ReplaceInvalidUtf8(std::string_view text) {
  std::string valid;
  valid.reserve(text.size() + 16);
  StepTally tally;
  while (!text.empty()) {
    size_t length = CharacterLength(text);
    tally.Add(length > 0 ? 1 : 8);
    if (length > 0) {
      valid.append(text.substr(0, length));
    } else {
      // As many bytes as begin a character: a prefix is one if some continuation completes it.
      length = 1;
      for (size_t taken = 2; taken < 4 && taken <= text.size(); ++taken) {
        std::string completed(text.substr(0, taken));
        const auto first = static_cast<unsigned char>(text[0]);
        const size_t whole = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
        if (taken >= whole) break;
        completed.resize(whole, '\x80');
        if (CharacterLength(completed) != whole) break;
        length = taken;
      }
      valid.append(kReplacementCharacter);
    }
    text.remove_prefix(length);
  }
  tally.Done();
  return valid;
}

bool IsSpace(char32_t code) {
  if (code < 0x80) return code == ' ' || (code >= 0x9 && code <= 0xd);
  return code == 0x85 || code == 0xa0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200a) || code == 0x2028 ||
         code == 0x2029 || code == 0x202f || code == 0x205f || code == 0x3000;
}

bool IsWord(char32_t code) {
  if (code < 0x80) {
    return (code >= '0' && code <= '9') || (code >= 'a' && code <= 'z') || (code >= 'A' && code <= 'Z') || code == '_';
  }
  switch (CategoryOf(code)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      // Alphabetic symbols (circled and squared letters), and the two joiners.
      return code == 0x200c || code == 0x200d || (code >= 0x24b6 && code <= 0x24e9) ||
             (code >= 0x1f130 && code <= 0x1f149) || (code >= 0x1f150 && code <= 0x1f169) ||
             (code >= 0x1f170 && code <= 0x1f189) || IsInRanges(code, kWordToo);
  }
}

bool IsNumber(char32_t code) {
  if (code < 0x80) return code >= '0' && code <= '9';
  const utf8proc_category_t category = CategoryOf(code);
  return (category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO) || IsInRanges(code, kNumbersToo);
}

bool IsPunctuation(char32_t code) {
  if (code < 0x80) {
    return (code >= '!' && code <= '/') || (code >= ':' && code <= '@') || (code >= '[' && code <= '`') ||
           (code >= '{' && code <= '~');
  }
  const utf8proc_category_t category = CategoryOf(code);
  if (category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO) return !IsInRanges(code, kNotPunctuation);
  return IsInRanges(code, kPunctuationToo);
}

bool IsMark(char32_t code) {
  if (code < 0x300) return false;
  const utf8proc_category_t category = CategoryOf(code);
  return category >= UTF8PROC_CATEGORY_MN && category <= UTF8PROC_CATEGORY_ME && !IsInRanges(code, kNotMarks);
}

bool IsNonspacingMark(char32_t code) {
  if (code < 0x300) return false;
  if (CategoryOf(code) == UTF8PROC_CATEGORY_MN) return !IsInRanges(code, kNotNonspacing);
  return IsInRanges(code, kNonspacingToo);
}

bool IsOther(char32_t code) {
  if (code < 0x80) return code < ' ' || code == 0x7f;
  switch (CategoryOf(code)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CO:
      return !IsInRanges(code, kNotOther);
    default:
      return false;
  }
}

bool IsBertIdeograph(char32_t code) {
  // The original writes 2B920 where extension E begins at 2B820.
  static constexpr CodeRange kIdeographs[] = {{0x3400, 0x4dbf},   {0x4e00, 0x9fff},   {0xf900, 0xfaff},
                                              {0x20000, 0x2a6df}, {0x2a700, 0x2b81f}, {0x2b920, 0x2ceaf},
                                              {0x2f800, 0x2fa1f}};
  return code >= 0x3400 && IsInRanges(code, kIdeographs);
}

bool IsCased(char32_t code) {
  const utf8proc_category_t category = CategoryOf(code);
  return (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LT) || code == 0xaa || code == 0xba ||
         (code >= 0x2160 && code <= 0x217f) || (code >= 0x24b6 && code <= 0x24e9);
}

bool IsCaseIgnorable(char32_t code) {
  switch (CategoryOf(code)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      return code == '\'' || code == '.' || code == ':' || code == 0xb7 || code == 0x387 || code == 0x55f ||
             code == 0x5f4 || code == 0x2018 || code == 0x2019 || code == 0x2024 || code == 0x2027 || code == 0xfe13 ||
             code == 0xfe52 || code == 0xfe55 || code == 0xff07 || code == 0xff0e || code == 0xff1a;
  }
}

void AppendLower(char32_t code, std::string* to) {
  if (code < 0x80) {
    to->push_back(static_cast<char>(code >= 'A' && code <= 'Z' ? code + 32 : code));
  } else if (code == 0x130) {  // the only character whose lower case has two
    to->append("i\xcc\x87");
  } else {
    const auto lower = static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code)));
    const auto* later = std::find_if(std::begin(kLowerToo), std::end(kLowerToo), [code](const LowerRange& range) {
      return code >= range.first && code <= range.last;
    });
    AppendUtf8(
        later == std::end(kLowerToo) ? lower : static_cast<char32_t>(static_cast<int32_t>(code) + later->distance), to);
  }
}

namespace {

// Finds, for each sigma of a text from left to right, whether it is the last letter of a word of several
// (SpecialCasing, Final_Sigma). Characters are looked at only once.
class FinalSigmas {
 public:
  explicit FinalSigmas(std::string_view text) : text_(text) {}
  bool IsFinal(size_t begin, size_t end) {
    for (; seen_ < begin; seen_ = next_.end) {
      next_ = CharacterAt(text_, seen_);
      tally_.Add(1);
      if (!IsCaseIgnorable(next_.code)) cased_before_ = IsCased(next_.code);
    }
    if (!cased_before_) return false;
    // Characters before `ahead_` are ignored in search of the next letter.
    for (ahead_ = std::max(ahead_, end); ahead_ < text_.size(); ahead_ = next_.end) {
      next_ = CharacterAt(text_, ahead_);
      tally_.Add(1);
      if (!IsCaseIgnorable(next_.code)) return !IsCased(next_.code);
    }
    return true;
  }

 private:
  std::string_view text_;
  Character next_{0, 0};
  size_t seen_ = 0, ahead_ = 0;
  bool cased_before_ = false;
  StepTally tally_;
};

}  // namespace

std::string Lower(std::string_view text) {
  constexpr char32_t kSigma = 0x3a3, kFinalSigma = 0x3c2;
  std::string to;
  to.reserve(text.size() + 16);
  FinalSigmas sigmas(text);
  StepTally tally;
  for (size_t at = 0; at < text.size();) {
    const Character character = CharacterAt(text, at);
    tally.Add(1);
    if (character.code == kSigma && sigmas.IsFinal(at, character.end)) {
      AppendUtf8(kFinalSigma, &to);
    } else {
      AppendLower(character.code, &to);
    }
    at = character.end;
  }
  tally.Done();
  return to;
}

std::string Normalize(std::string_view text, NormalForm form) {
  std::string to;
  size_t at = AsciiPrefix(text), copied = 0;
  if (at == text.size()) return std::string(text);
  const std::bitset<kBmpEnd>& inert = InertTable(form);
  const auto is_inert = [&](char32_t code) { return code < kBmpEnd ? inert.test(code) : IsInert(code, form); };
  to.reserve(text.size() + text.size() / 4);
  size_t before = at > 0 ? at - 1 : 0;  // the last inert character
  StepTally tally;
  while (at < text.size()) {
    const Character character = CharacterAt(text, at);
    tally.Add(1);
    if (is_inert(character.code)) {
      // Characters that the originals do not normalise are not passed to utf8proc.
      before = IsInRanges(character.code, kNotNormalized) ? character.end : at;
      at = character.end;
      continue;
    }
    size_t end = character.end;
    while (end < text.size()) {
      const Character next = CharacterAt(text, end);
      tally.Add(1);
      if (is_inert(next.code)) break;
      end = next.end;
    }
    before = std::max(before, copied);
    to.append(text.substr(copied, before - copied));
    AppendForm(text.substr(before, end - before), form, &to);
    tally.Add(kFormSteps * (end - before));
    copied = before = at = end;
  }
  tally.Done();
  to.append(text.substr(copied));
  return to;
}

size_t GraphemeEnd(std::string_view text, size_t at) {
  Character here = CharacterAt(text, at);
  utf8proc_int32_t state = 0;
  StepTally tally;  // of long clusters
  while (here.end < text.size()) {
    const Character next = CharacterAt(text, here.end);
    tally.Add(4);
    // Two ASCII characters are two clusters, but for a line feed behind a carriage return.
    if (here.code < 0x80 && next.code < 0x80 && here.code != '\r') break;
    if (utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(here.code),
                                         static_cast<utf8proc_int32_t>(next.code), &state)) {
      break;
    }
    here = next;
  }
  return here.end;
}

}  // namespace qkv::text
