#include "qkv/core/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace qkv {
namespace {

// Unicode's general categories Cc, Zl and Zp, and the bidirectional controls.
bool IsControl(uint32_t code) {
  return code < 0x20 || (code >= 0x7F && code < 0xA0) || code == 0x061C || code == 0x200E || code == 0x200F ||
         (code >= 0x2028 && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
}

// The code point of a whole character.
uint32_t CodePoint(std::string_view c) {
  if (c.size() == 1) return static_cast<uint8_t>(c[0]);
  uint32_t code = static_cast<uint8_t>(c[0]) & (0x7Fu >> c.size());
  for (const char next : c.substr(1)) code = code << 6 | (static_cast<uint8_t>(next) & 0x3Fu);
  return code;
}

}  // namespace

size_t CharacterLength(std::string_view text) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const auto follows = [&](size_t i, unsigned low = 0x80, unsigned high = 0xBF) {
    return byte(i) >= low && byte(i) <= high;
  };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return follows(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    const unsigned low = first == 0xE0 ? 0xA0 : 0x80, high = first == 0xED ? 0x9F : 0xBF;  // no overlong, no surrogate
    return follows(1, low, high) && follows(2) ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    const unsigned low = first == 0xF0 ? 0x90 : 0x80, high = first == 0xF4 ? 0x8F : 0xBF;
    return follows(1, low, high) && follows(2) && follows(3) ? 4 : 0;
  }
  return 0;
}

void AppendUtf8(char32_t code, std::string* to) {
  const auto put = [to](char32_t byte) { to->push_back(static_cast<char>(byte)); };
  if (code < 0x80) return put(code);
  if (code < 0x800) {
    put(0xC0 | code >> 6);
  } else if (code < 0x10000) {
    put(0xE0 | code >> 12), put(0x80 | (code >> 6 & 0x3F));
  } else {
    put(0xF0 | (code >> 18 & 7)), put(0x80 | (code >> 12 & 0x3F)), put(0x80 | (code >> 6 & 0x3F));
  }
  put(0x80 | (code & 0x3F));
}

std::string Printable(std::string_view text) {
  std::string shown;
  shown.reserve(text.size());
  while (!text.empty()) {
    const size_t length = CharacterLength(text);
    const std::string_view c = text.substr(0, std::max<size_t>(1, length));
    if (length > 0 && !IsControl(CodePoint(c))) {
      shown += c;
    } else {
      for (const char byte : c) shown += fmt::format("\\x{:02x}", static_cast<uint8_t>(byte));
    }
    text.remove_prefix(c.size());
  }
  return shown;
}

std::string Printable(std::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) return Printable(text);
  // Not within a character.
  size_t end = max_bytes;
  for (size_t back = 1; back < std::min<size_t>(4, max_bytes); ++back) {
    if (CharacterLength(text.substr(max_bytes - back)) > back) end = max_bytes - back;
  }
  return fmt::format("{}… ({} bytes)", Printable(text.substr(0, end)), text.size());
}

}  // namespace qkv
