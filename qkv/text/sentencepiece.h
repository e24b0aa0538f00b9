// The file of a SentencePiece model (spiece.model, tokenizer.model): its pieces, its normaliser, and the models of both
// kinds.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/text/pieces.h"
#include "qkv/text/subword_model.h"

namespace qkv::text {

/// A piece of the file; the numbers are those of the file.
struct SentencePiece {
  enum Type { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };
  std::string text;
  float score = 0;
  Type type = kNormal;
};

/// The content of the file. Names of the fields are those of sentencepiece_model.proto.
struct SentencePieceModel {
  enum Kind { kUnigram = 1, kBpe = 2, kWord = 3, kChar = 4 };
  std::vector<SentencePiece> pieces;
  Kind model_type = kUnigram;
  bool byte_fallback = false;
  bool treat_whitespace_as_suffix = false;
  std::string precompiled_charsmap;
  bool add_dummy_prefix = true, remove_extra_whitespaces = true, escape_whitespaces = true;
  int32_t unknown_id = -1;                        // of the only piece of type kUnknown
  int32_t bos_id = -1, eos_id = -1, pad_id = -1;  // of control pieces; -1: none
  std::string unk_surface = " \xe2\x81\x87 ";     // text of an unknown token when decoding
};

/// Parses the bytes of a model. Throws Error, prefixed with `where`, if they are none: fields that are cut, no pieces
/// or an empty or double one, not exactly one unknown piece, byte fallback without 256 byte pieces, NaN among scores, a
/// kind other than unigram and BPE.
SentencePieceModel ParseSentencePiece(std::string_view bytes, std::string_view where);

/// The normaliser. Unlike others it takes any bytes: each that is part of no UTF-8 character becomes U+FFFD.
Normalizer SentencePieceNormalizer(const SentencePieceModel& model, std::string_view where);

/// Unigram or BPE. `where` is for its errors.
std::unique_ptr<SpanModel> MakeSentencePieceModel(const SentencePieceModel& model, std::string where);

}  // namespace qkv::text
