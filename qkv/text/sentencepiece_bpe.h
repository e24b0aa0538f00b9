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

class SentencePieceBpeModel : public SpanModel {
 public:
  /// Piece i has id i. Throws Error, prefixed with `where`, if a piece is unused.
  SentencePieceBpeModel(const std::vector<SentencePiece>& pieces, SentencePieceBpeConfig config, std::string where);
  void Encode(std::string_view piece, ModelWorkspace& workspace, std::vector<int32_t>* ids) const override;
  void EncodeSpans(std::string_view piece, ModelWorkspace& workspace, std::vector<TokenSpan>* spans) const override;

 private:
  void EncodeWord(std::string_view word, ModelWorkspace& workspace, std::vector<int32_t>* ids) const;
  // Calls add(id, begin, end) for each token.
  template <typename F>
  void ForEachToken(std::string_view word, ModelWorkspace& workspace, F&& add) const;
  void MergeSymbols(std::string_view word, ModelWorkspace& workspace) const;

  SentencePieceBpeConfig config_;
  std::string where_;
  Vocabulary mergeable_;  // normal and user-defined pieces
  Trie user_defined_;
  std::vector<float> scores_;
  std::vector<int32_t> byte_tokens_;
  bool metaspace_words_ = false;
};

}  // namespace qkv::text
