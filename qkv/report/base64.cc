#include "qkv/report/base64.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace qkv::report {
namespace {

constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr uint8_t kSpace = 64, kPadding = 65, kWrong = 255;

constexpr std::array<uint8_t, 256> kValues = [] {
  std::array<uint8_t, 256> values{};
  values.fill(kWrong);
  for (size_t i = 0; i < kDigits.size(); ++i) values[static_cast<uint8_t>(kDigits[i])] = static_cast<uint8_t>(i);
  values['-'] = 62;
  values['_'] = 63;
  for (const char space : {' ', '\t', '\r', '\n'}) values[static_cast<uint8_t>(space)] = kSpace;
  values['='] = kPadding;
  return values;
}();

}  // namespace

std::string Base64(std::span<const std::byte> bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t left = std::min<size_t>(3, bytes.size() - i);
    uint32_t group = 0;
    for (size_t j = 0; j < 3; ++j) group = group << 8 | (j < left ? std::to_integer<uint32_t>(bytes[i + j]) : 0);
    for (size_t j = 0; j < 4; ++j) text += j <= left ? kDigits[group >> (18 - 6 * j) & 63] : '=';
  }
  return text;
}

std::optional<std::string> FromBase64(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3 + 3);
  uint32_t group = 0;
  int digits = 0, padding = 0;
  for (const char c : text) {
    const uint8_t value = kValues[static_cast<uint8_t>(c)];
    if (value == kSpace) continue;
    if (value == kPadding) {
      ++padding;
      continue;
    }
    if (value == kWrong || padding > 0) return std::nullopt;
    group = group << 6 | value;
    if (++digits % 4 != 0) continue;
    for (const int shift : {16, 8, 0}) bytes += static_cast<char>(group >> shift & 255);
    group = 0;
  }
  const int rest = digits % 4;
  if (rest == 1 || (padding > 0 && (rest + padding) != 4)) return std::nullopt;
  if (rest == 2) bytes += static_cast<char>(group >> 4 & 255);
  if (rest == 3) {
    bytes += static_cast<char>(group >> 10 & 255);
    bytes += static_cast<char>(group >> 2 & 255);
  }
  return bytes;
}

}  // namespace qkv::report
