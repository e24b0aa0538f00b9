// WordPiece, as BERT and its kin split words: from the left, the longest token that fits.
#pragma once

#include <string>

#include "qkv/text/subword_model.h"
#include "qkv/text/trie.h"

namespace qkv::text {

struct WordPieceConfig {
  std::string unknown = "[UNK]";         // token of a word that no tokens make up
  std::string continuing_prefix = "##";  // in front of every token of a word but the first
  int64_t max_characters = 100;          // longer words are unknown
};

class WordPieceModel : public SubwordModel {
 public:
  /// Takes the vocabulary, finished. Encode throws Error, prefixed with `where`, if it needs the unknown token and
  /// there is none.
  WordPieceModel(Vocabulary vocabulary, WordPieceConfig config, std::string where);
  /// Takes time O(n) of the n bytes, however long tokens are.
  void Encode(std::string_view piece, ModelWorkspace& workspace, std::vector<int32_t>* ids) const override;

 private:
  // An automaton of Aho and Corasick on the tokens that continue a word, written backwards: read from the end of a word
  // to its beginning, it knows at each byte the longest token that begins there.
  struct State {
    int32_t failure = 0;      // the longest other state that ends alike
    int32_t longest_id = -1;  // of the tokens that begin here
    uint32_t longest_size = 0;
  };
  void BuildAutomaton();
  int32_t Step(int32_t state, unsigned char byte) const;
  bool AppendTokens(std::string_view word, ModelWorkspace& workspace, std::vector<int32_t>* ids) const;

  WordPieceConfig config_;
  std::string where_;
  Trie first_;                 // tokens that begin a word: all
  Trie continuing_;            // the others without their prefix, backwards
  std::vector<State> states_;  // of the nodes of continuing_
  int32_t unknown_ = -1;
};

}  // namespace qkv::text
