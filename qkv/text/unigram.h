// The unigram model (SentencePiece, T5, SigLIP): the pieces of the highest sum of scores, by Viterbi's algorithm.
#pragma once

#include <string>

#include "qkv/text/subword_model.h"
#include "qkv/text/trie.h"

namespace qkv::text {

struct UnigramPiece {
  std::string text;
  double score = 0;
  // Which text a piece may match. User-defined symbols get a score that wins over everything else.
  enum class Kind { kNormal, kUserDefined, kNever } kind = Kind::kNormal;
};

struct UnigramConfig {
  int32_t unknown = -1;  // id; -1: a text that needs it is an Error
  bool byte_fallback = false;
  /// As libsentencepiece: sums kept in float, one byte token for each byte of an unknown character, and the unknown
  /// score follows from the normal pieces. Otherwise as tokenizer.json's library: sums in double, and a run of unknown
  /// characters may itself be a piece.
  bool sentencepiece = false;
};

class UnigramModel : public SpanModel {
 public:
  /// Piece i has id i. Throws Error, prefixed with `where`, if a score is NaN or infinite, or an id is outside.
  UnigramModel(std::vector<UnigramPiece> pieces, UnigramConfig config, std::string where);
  void Encode(std::string_view piece, ModelWorkspace& workspace, std::vector<int32_t>* ids) const override;
  void EncodeSpans(std::string_view piece, ModelWorkspace& workspace, std::vector<TokenSpan>* spans) const override;

 private:
  // Calls add(id, begin, end) for each token.
  template <typename F>
  void ForEachToken(std::string_view piece, ModelWorkspace& workspace, F&& add) const;
  template <bool single_precision>
  void FindBest(std::string_view text, ModelWorkspace& workspace) const;
  template <typename F>
  void AddUnknown(std::string_view piece, size_t begin, size_t end, F&& add) const;

  UnigramConfig config_;
  std::string where_;
  Trie trie_;
  std::vector<double> scores_;
  std::vector<bool> user_defined_;
  std::vector<int32_t> byte_tokens_;
  double unknown_score_ = 0, max_score_ = 0;
};

}  // namespace qkv::text
