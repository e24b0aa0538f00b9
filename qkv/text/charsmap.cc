#include "qkv/text/charsmap.h"

#include <span>

#include "qkv/core/error.h"
#include "qkv/io/little_endian.h"

namespace qkv::text {
namespace {

constexpr size_t kMaxReplacement = 4096;

// Fields of a unit of darts-clone's double array.
constexpr bool HasLeaf(uint32_t unit) { return (unit >> 8 & 1) != 0; }
constexpr uint32_t Value(uint32_t unit) { return unit & 0x7fffffff; }
constexpr uint32_t Label(uint32_t unit) { return unit & 0x800000ff; }
constexpr uint32_t Offset(uint32_t unit) { return unit >> 10 << ((unit & 0x200) >> 6); }

}  // namespace

Charsmap::Charsmap(std::string_view bytes, std::string_view where) {
  if (bytes.empty()) return;
  Require(bytes.size() >= 4, "{}: expected a precompiled map of characters of at least 4 bytes, got {}", where,
          bytes.size());
  const auto stored = std::as_bytes(std::span<const char>(bytes));
  const size_t trie = io::LittleEndian<uint32_t>(stored, 0);
  Require(trie >= 4 && trie % 4 == 0 && trie <= bytes.size() - 4,
          "{}: expected a trie within the map's {} bytes, got one of {}", where, bytes.size(), trie);
  texts_ = bytes.substr(4 + trie);
  size_t run = 0;
  for (const char c : texts_) {
    run = c == '\0' ? 0 : run + 1;
    Require(run <= kMaxReplacement, "{}: expected replacements of at most {} bytes in the map of characters", where,
            kMaxReplacement);
  }
  units_.resize(trie / 4);
  for (size_t i = 0; i < units_.size(); ++i) units_[i] = io::LittleEndian<uint32_t>(stored, 4 + 4 * i);
}

template <bool shortest>
Charsmap::Match Charsmap::Find(std::string_view text) const {
  Match match;
  if (units_.empty()) return match;
  uint32_t value = 0;
  size_t node = Offset(units_[0]);
  size_t i = 0;
  for (; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    node ^= byte;
    if (node >= units_.size()) break;
    const uint32_t unit = units_[node];
    if (Label(unit) != byte) break;
    node ^= Offset(unit);
    if (HasLeaf(unit)) {
      if (node >= units_.size()) break;
      value = Value(units_[node]);
      match.length = i + 1;
      if (shortest) break;
    }
  }
  match.walked = i;
  if (match.length > 0 && value < texts_.size()) {
    match.replacement = std::string_view(texts_.c_str() + value);
  }
  return match;
}

std::string DecodeBase64(std::string_view text, std::string_view where) {
  std::string bytes;
  uint32_t bits = 0;
  int count = 0;
  while (text.ends_with('=')) text.remove_suffix(1);
  for (const char c : text) {
    const int value = c >= 'A' && c <= 'Z'   ? c - 'A'
                      : c >= 'a' && c <= 'z' ? c - 'a' + 26
                      : c >= '0' && c <= '9' ? c - '0' + 52
                      : c == '+'             ? 62
                      : c == '/'             ? 63
                                             : -1;
    Require(value >= 0, "{}: expected base64, got the byte {}", where, static_cast<int>(static_cast<unsigned char>(c)));
    bits = bits << 6 | static_cast<uint32_t>(value);
    count += 6;
    if (count >= 8) {
      count -= 8;
      bytes += static_cast<char>(bits >> count & 0xff);
    }
  }
  return bytes;
}

Charsmap::Match Charsmap::Longest(std::string_view text) const { return Find<false>(text); }
Charsmap::Match Charsmap::Shortest(std::string_view text) const { return Find<true>(text); }

}  // namespace qkv::text
