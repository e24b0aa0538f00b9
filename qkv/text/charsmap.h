// SentencePiece's precompiled map of characters: the normalisation of a model (nmt_nfkc, nfkc_cf, …) as a double-array
// trie and the texts that replace its keys.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace qkv::text {

class Charsmap {
 public:
  Charsmap() = default;  // replaces nothing
  /// Parses the bytes: the trie's size (4 bytes, little endian), its units, texts that end with a zero byte. Throws
  /// Error, prefixed with `where`, if it is none; a replacement may have 4,096 bytes.
  Charsmap(std::string_view bytes, std::string_view where);

  bool empty() const { return units_.empty(); }

  struct Match {
    size_t length = 0;             // of the key; 0: none
    std::string_view replacement;  // valid as long as this map
    size_t walked = 0;             // bytes that were looked at
  };
  /// The longest key that `text` begins with.
  Match Longest(std::string_view text) const;
  /// The shortest one.
  Match Shortest(std::string_view text) const;

 private:
  template <bool shortest>
  Match Find(std::string_view text) const;

  std::vector<uint32_t> units_;
  std::string texts_;
};

/// The bytes that a tokenizer.json has as base64. Throws Error, prefixed with `where`, if it is none.
std::string DecodeBase64(std::string_view text, std::string_view where);

}  // namespace qkv::text
