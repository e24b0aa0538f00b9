// Added tokens: texts that are found in the input before it is split, such as "<|endoftext|>".
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/text/pieces.h"
#include "qkv/text/trie.h"

namespace qkv::text {

struct AddedToken {
  std::string content;
  int32_t id = 0;
  bool single_word = false;  // only between characters that are not part of words
  bool lstrip = false;       // white space in front belongs to it
  bool rstrip = false;       // white space behind belongs to it
  bool normalized = false;   // found in normalised text, itself normalised
  bool special = false;      // Decode leaves it out
  bool twice = false;        // found in the text as it is and in normalised text

  bool operator==(const AddedToken&) const = default;
};

class AddedTokens {
 public:
  AddedTokens() = default;
  /// If several tokens have the same content, the last wins; special ones are searched for first. `normalizers` are
  /// those of the tokenizer. Tokens that normalise to nothing are not searched for.
  AddedTokens(std::vector<AddedToken> tokens, const std::vector<Normalizer>& normalizers);

  const std::vector<AddedToken>& tokens() const { return tokens_; }
  /// What Decode writes for token `i`: its content, normalised if it is found in normalised text.
  const std::string& TextOf(size_t i) const { return texts_[i]; }

  /// A part of a text: a token, or what is between tokens (token: nullptr).
  struct Part {
    size_t begin, end;
    const AddedToken* token;
  };
  /// The parts of valid UTF-8, from left to right: the leftmost, then longest matches. `normalized`: matches the tokens
  /// that are found in normalised text, otherwise the others.
  void Find(std::string_view text, bool normalized, std::vector<Part>* parts) const;
  bool empty(bool normalized) const { return (normalized ? normalized_ : raw_).trie.empty(); }

 private:
  struct Set {
    std::vector<std::string> texts;
    Trie trie;  // values: indices of tokens
    std::vector<bool> first_bytes;
  };
  static Set MakeSet(std::vector<std::pair<std::string, int32_t>> texts);

  std::vector<AddedToken> tokens_;
  std::vector<std::string> texts_;
  Set raw_, normalized_;
};

}  // namespace qkv::text
