#include "qkv/text/html.h"

#include <algorithm>
#include <array>
#include <optional>

#include "qkv/core/text.h"
#include "qkv/core/work.h"
#include "qkv/text/unicode.h"

namespace qkv::text {
namespace {

// Steps for an "&": names are looked up in a sorted list, longer ones first.
constexpr int64_t kReferenceSteps = 64;

enum EntityKind { kHtml, kBare, kUpper };

struct Entity {
  std::string_view name, text;
  EntityKind kind;
};

constexpr Entity kEntities[] = {
#include "qkv/text/html_entities.inc"
};
static_assert(std::ranges::is_sorted(kEntities, {}, &Entity::name));

const Entity* FindEntity(std::string_view name) {
  const auto found = std::ranges::lower_bound(kEntities, name, {}, &Entity::name);
  return found != std::end(kEntities) && found->name == name ? found : nullptr;
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsHexDigit(char c) { return IsDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
bool IsAlphanumeric(char c) { return IsDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// The length of the text's beginning whose bytes all fulfil the condition.
template <typename F>
size_t PrefixOf(std::string_view text, F&& condition) {
  return static_cast<size_t>(std::ranges::find_if_not(text, condition) - text.begin());
}

// Meaning of numbers 0x80 to 0x9F, by Windows-1252; five are characters of their own.
constexpr std::array<char16_t, 32> kWindows1252 = {0x20ac, 0x0081, 0x201a, 0x0192, 0x201e, 0x2026, 0x2020, 0x2021,
                                                   0x02c6, 0x2030, 0x0160, 0x2039, 0x0152, 0x008d, 0x017d, 0x008f,
                                                   0x0090, 0x2018, 0x2019, 0x201c, 0x201d, 0x2022, 0x2013, 0x2014,
                                                   0x02dc, 0x2122, 0x0161, 0x203a, 0x0153, 0x009d, 0x017e, 0x0178};

// Appends the character of a number; nothing for those that HTML forbids.
void AppendNumber(char32_t code, std::string* to) {
  if (code >= 0x80 && code < 0xa0) return AppendUtf8(kWindows1252[code - 0x80], to);
  if (code == 0 || (code >= 0xd800 && code < 0xe000) || code > 0x10ffff) {
    to->append(kReplacementCharacter);
    return;
  }
  const bool control = (code < 0x20 && code != '\t' && code != '\n' && code != '\f' && code != '\r') || code == 0x7f;
  const bool no_character = (code >= 0xfdd0 && code <= 0xfdef) || (code & 0xfffe) == 0xfffe;
  if (!control && !no_character) AppendUtf8(code, to);
}

// A number behind "&": "#39", "#x27", with its semicolon if there is one. Returns its length, 0 if it is none.
size_t AppendNumericReference(std::string_view text, std::string* to) {
  const bool hex = text.size() > 1 && (text[1] == 'x' || text[1] == 'X');
  const size_t begin = hex ? 2 : 1;
  const std::string_view rest = text.substr(std::min(begin, text.size()));
  const size_t digits = PrefixOf(rest, hex ? IsHexDigit : IsDigit);
  if (digits == 0) return 0;
  char32_t code = 0;
  for (const char c : rest.substr(0, digits)) {
    const int digit = IsDigit(c) ? c - '0' : (c | 0x20) - 'a' + 10;
    code = std::min<char32_t>(code * (hex ? 16 : 10) + static_cast<char32_t>(digit), 0x110000);
  }
  AppendNumber(code, to);
  const size_t end = begin + digits;
  return end + (end < text.size() && text[end] == ';' ? 1 : 0);
}

// A name behind "&": the whole, or its longest beginning that needs no semicolon. Returns the length taken.
size_t AppendNamedReference(std::string_view text, std::string* to) {
  constexpr size_t kMaxName = 32;  // characters
  size_t end = 0;
  for (size_t count = 0; count < kMaxName && end < text.size(); ++count) {
    if (std::string_view("\t\n\f <&#;").find(text[end]) != text.npos) break;
    end = CharacterEnd(text, end);
  }
  const Entity* whole = FindEntity(text.substr(0, end));
  if (whole != nullptr && whole->kind != kUpper && end < text.size() && text[end] == ';') {
    to->append(whole->text);
    return end + 1;
  }
  for (; end > 1; --end) {
    const Entity* part = FindEntity(text.substr(0, end));
    if (part == nullptr || part->kind != kBare) continue;
    to->append(part->text);
    return end;
  }
  return 0;
}

// Calls append(behind the "&", &to) at each "&"; it returns the length that it took, or 0.
template <typename F>
std::string ReplaceReferences(std::string_view text, F&& append) {
  std::string to;
  to.reserve(text.size());
  while (!text.empty()) {
    const size_t at = std::min(text.find('&'), text.size());
    to.append(text.substr(0, at));
    text.remove_prefix(at);
    if (text.empty()) break;
    text.remove_prefix(1);
    const size_t taken = append(text, &to);
    Spend(kReferenceSteps + static_cast<int64_t>(at + taken));
    if (taken == 0) to.push_back('&');
    text.remove_prefix(taken);
  }
  return to;
}

}  // namespace

std::string UnescapeHtml(std::string_view text) {
  return ReplaceReferences(text, [](std::string_view rest, std::string* to) {
    return rest.starts_with('#') ? AppendNumericReference(rest, to) : AppendNamedReference(rest, to);
  });
}

std::string UnescapeTerminatedHtml(std::string_view text) {
  constexpr size_t kMaxName = 24;
  return ReplaceReferences(text, [](std::string_view rest, std::string* to) -> size_t {
    const size_t hash = rest.starts_with('#') ? 1 : 0, length = PrefixOf(rest.substr(hash), IsAlphanumeric);
    const size_t end = hash + length;
    if (length == 0 || length > kMaxName || end >= rest.size() || rest[end] != ';') return 0;
    if (hash == 1) {
      std::string character;
      // A malformed reference such as "#12x;" stays as it is.
      if (AppendNumericReference(rest, &character) != end + 1 || character == ";") return 0;
      to->append(character);
      return end + 1;
    }
    const Entity* entity = FindEntity(rest.substr(0, end));
    if (entity == nullptr) return 0;
    to->append(entity->text);
    return end + 1;
  });
}

}  // namespace qkv::text
