#include "qkv/text/clean.h"

#include <algorithm>

#include "qkv/core/text.h"
#include "qkv/text/html.h"
#include "qkv/text/steps.h"
#include "qkv/text/unicode.h"

namespace qkv::text {
namespace {

// Calls append(code, the character's bytes, &to) for each character.
template <typename F>
std::string MapCharacters(std::string_view text, F&& append) {
  std::string to;
  to.reserve(text.size() + text.size() / 8);
  StepTally tally;
  for (size_t at = 0; at < text.size();) {
    const Character character = CharacterAt(text, at);
    tally.Add(2);
    append(character.code, text.substr(at, character.end - at), &to);
    at = character.end;
  }
  tally.Done();
  return to;
}

// Latin ligatures and digraphs, in pieces. By ftfy; æ and œ stay.
struct Ligature {
  char32_t code;
  std::string_view pieces;
};
constexpr Ligature kLigatures[] = {
    {0x0132, "IJ"},  {0x0133, "ij"},  {0x0149, "ʼn"}, {0x01c4, "DŽ"}, {0x01c5, "Dž"}, {0x01c6, "dž"},
    {0x01c7, "LJ"},  {0x01c8, "Lj"},  {0x01c9, "lj"}, {0x01ca, "NJ"}, {0x01cb, "Nj"}, {0x01cc, "nj"},
    {0x01f1, "DZ"},  {0x01f2, "Dz"},  {0x01f3, "dz"}, {0xfb00, "ff"}, {0xfb01, "fi"}, {0xfb02, "fl"},
    {0xfb03, "ffi"}, {0xfb04, "ffl"}, {0xfb05, "ſt"}, {0xfb06, "st"},
};

bool IsAsciiLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool IsAsciiPunctuation(char c) { return c > ' ' && c < '\x7f' && !IsAsciiLetter(c) && !(c >= '0' && c <= '9'); }

bool IsUnwantedControl(char32_t code) {
  return code < 0x09 || code == 0x0b || (code >= 0x0e && code < 0x20) || code == 0x7f ||
         (code >= 0x206a && code < 0x2070) || code == 0xfeff || (code >= 0xfff9 && code < 0xfffd);
}

// ftfy's fixes of single characters: C1 controls by Windows-1252, ligatures, widths, straight quotes, ends of lines.
// Where one gives what a later one takes, FixLine's next round comes to it.
void AppendFixed(char32_t code, std::string_view bytes, std::string* to) {
  if (code >= 0x80 && code < 0xa0) {
    to->append(UnescapeHtml("&#" + std::to_string(static_cast<uint32_t>(code)) + ";"));
  } else if (const auto ligature = std::ranges::find(kLigatures, code, &Ligature::code);
             ligature != std::end(kLigatures)) {
    to->append(ligature->pieces);
  } else if (code == 0x3000) {
    to->push_back(' ');
  } else if (code > 0xff00 && code < 0xfff0) {
    to->append(Normalize(bytes, NormalForm::kNfkc));
  } else if (code >= 0x201c && code <= 0x201f) {
    to->push_back('"');
  } else if (code == 0x02bc || (code >= 0x2018 && code <= 0x201b)) {
    to->push_back('\'');
  } else if (code == '\r' || code == 0x2028 || code == 0x2029) {
    to->push_back('\n');
  } else {
    to->append(bytes);
  }
}

// Colours and other commands of terminals: ESC [ numbers, letter.
std::string WithoutTerminalCommands(std::string_view text) {
  std::string to;
  while (!text.empty()) {
    const size_t at = std::min(text.find("\033["), text.size());
    to.append(text.substr(0, at));
    text.remove_prefix(at);
    if (text.empty()) break;
    const size_t end = text.find_first_not_of("0123456789;", 2);
    const bool command = end != text.npos && IsAsciiLetter(text[end]);
    if (!command) to.append(text.substr(0, 2));
    text.remove_prefix(command ? end + 1 : 2);
  }
  return to;
}

// Until nothing changes, as ftfy; a reference within references within … takes a round each, hence the limit.
std::string FixLine(std::string text, bool unescape) {
  constexpr int kMaxRounds = 100;
  for (int round = 0; round < kMaxRounds; ++round) {
    std::string fixed = unescape ? UnescapeTerminatedHtml(text) : text;
    fixed = WithoutTerminalCommands(MapCharacters(fixed, AppendFixed));
    fixed = MapCharacters(fixed, [](char32_t code, std::string_view bytes, std::string* to) {
      if (!IsUnwantedControl(code)) to->append(bytes);
    });
    fixed = Normalize(fixed, NormalForm::kNfc);
    if (fixed == text) break;
    text = std::move(fixed);
  }
  return text;
}

// ftfy.fix_text. HTML references are left alone from the first line on that has a "<".
std::string FixText(std::string_view text) {
  std::string fixed;
  bool unescape = true;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    const std::string_view line = text.substr(0, end);
    unescape = unescape && line.find('<') == line.npos;
    fixed += FixLine(std::string(line), unescape);
    text.remove_prefix(end);
  }
  return fixed;
}

// Words joined by single spaces.
std::string JoinWords(std::string_view text) {
  std::string to;
  bool space = false;
  StepTally tally;
  for (size_t at = 0; at < text.size();) {
    const Character character = CharacterAt(text, at);
    tally.Add(1);
    if (IsSpace(character.code)) {
      space = true;
    } else {
      if (space && !to.empty()) to.push_back(' ');
      space = false;
      to.append(text.substr(at, character.end - at));
    }
    at = character.end;
  }
  tally.Done();
  return to;
}

// open_clip's basic_clean; white space at the ends goes later.
std::string CleanBasic(std::string_view text) {
  const std::string valid = IsValidUtf8(text) ? std::string(text) : ReplaceInvalidUtf8(text);
  return UnescapeHtml(UnescapeHtml(FixText(valid)));
}

}  // namespace

std::string CleanWhitespace(std::string_view text) { return JoinWords(CleanBasic(text)); }

std::string CleanLower(std::string_view text) { return Lower(CleanWhitespace(text)); }

std::string CleanCanonical(std::string_view text) {
  std::string clean = CleanBasic(text);
  std::ranges::replace(clean, '_', ' ');
  std::erase_if(clean, IsAsciiPunctuation);
  return JoinWords(Lower(clean));
}

}  // namespace qkv::text
