#include "qkv/io/pickle_text.h"

#include <charconv>
#include <optional>

#include "qkv/core/text.h"

namespace qkv::io {
namespace {

// The number of `digits` digits behind text[at]; none if they are not there.
std::optional<uint32_t> HexDigits(std::string_view text, size_t at, size_t digits) {
  if (at > text.size() || digits > text.size() - at) return std::nullopt;
  uint32_t code = 0;
  const char* const begin = text.data() + at;
  const auto [end, error] = std::from_chars(begin, begin + digits, code, 16);
  return error == std::errc() && end == begin + digits ? std::optional(code) : std::nullopt;
}

}  // namespace

std::string DecodeUnicodeLine(std::string_view line) {
  std::string text;
  for (size_t i = 0; i < line.size();) {
    const size_t digits = line.substr(i).starts_with("\\u") ? 4 : line.substr(i).starts_with("\\U") ? 8 : 0;
    const std::optional<uint32_t> code = digits > 0 ? HexDigits(line, i + 2, digits) : std::nullopt;
    AppendUtf8(code.value_or(static_cast<unsigned char>(line[i])), &text);
    i += code ? 2 + digits : 1;
  }
  return text;
}

std::string DecodeStringLine(std::string_view line) {
  static constexpr std::string_view kEscapes = "n\nt\tr\ra\ab\bf\fv\v\\\\''\"\"";
  std::string text;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] != '\\' || i + 1 == line.size()) {
      text += line[i];
      continue;
    }
    const char c = line[++i];
    size_t known = 0;
    while (known < kEscapes.size() && kEscapes[known] != c) known += 2;
    if (known < kEscapes.size()) {
      text += kEscapes[known + 1];
    } else if (const auto code = HexDigits(line, i + 1, 2); c == 'x' && code) {
      text += static_cast<char>(*code);
      i += 2;
    } else {
      text += '\\';
      text += c;
    }
  }
  return text;
}

}  // namespace qkv::io
