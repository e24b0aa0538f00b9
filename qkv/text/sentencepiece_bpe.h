// SentencePiece's BPE: neighbours merge if together they are a piece, the best score first.
#pragma once

#include <string>

#include "qkv/text/subword_model.h"
#include "qkv/text/trie.h"

namespace qkv::text {

struct SentencePiece;

struct SentencePieceBpeConfig {
  int32_t unknown = 0;
  bool byte_fallback = false;
};

class SentencePieceBpeModel : public SubwordModel {
 public:
  /// Piece i has id i. Throws Error, prefixed with `where`, if a piece is unused.
  SentencePieceBpeModel(const std::vector<SentencePiece>& pieces, SentencePieceBpeConfig config, std::string where);
  void Encode(std::string_view piece, ModelWorkspace& workspace, std::vector<int32_t>* ids) const override;

 private:
  void EncodeWord(std::string_view word, ModelWorkspace& workspace, std::vector<int32_t>* ids) const;
  void AppendUnknown(std::string_view text, std::vector<int32_t>* ids) const;

  SentencePieceBpeConfig config_;
  std::string where_;
  Vocabulary mergeable_;  // normal and user-defined pieces
  Trie user_defined_;
  std::vector<float> scores_;
  std::vector<int32_t> byte_tokens_;
  bool metaspace_words_ = false;
};

}  // namespace qkv::text
