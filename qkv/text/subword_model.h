// The model of a tokenizer: the ids of one piece of text. BPE, unigram, SentencePiece's BPE and WordPiece each have a
// file.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "qkv/text/vocabulary.h"

namespace qkv::text {

/// Ids of words that were seen before: a table of fixed size (about 2 MB, allocated when first used), in which a new
/// word replaces an older one.
class WordCache {
 public:
  static constexpr size_t kMaxWord = 46, kMaxIds = 16;

  /// Appends the ids of `word` if they are here.
  bool Find(std::string_view word, std::vector<int32_t>* ids) const;
  /// Keeps them, unless the word or the list is too long.
  void Keep(std::string_view word, const int32_t* ids, size_t count);

 private:
  struct Slot {
    uint8_t size, count;  // an empty slot has size 0
    char word[kMaxWord];
    int32_t ids[kMaxIds];
  };
  std::unique_ptr<Slot[]> slots_;
};

/// An id, and the bytes of the piece that it stands for; ids of single bytes share those of their character.
struct TokenSpan {
  int32_t id;
  uint32_t begin, end;
};

/// Scratch memory of one call at a time; grows with the longest piece.
struct ModelWorkspace {
  WordCache cache;
  // For BPE: symbols of the piece, linked by index, and a heap of pairs.
  struct Symbol {
    int32_t id, previous, next;
    uint32_t begin, size;  // bytes of the piece; size 0: merged into another
    bool frozen;
  };
  struct Pair {
    double rank;  // the lowest merges first
    int32_t left, id;
    uint32_t size;
  };
  std::vector<Symbol> symbols;
  std::vector<Pair> heap;
  // For unigram: the best way to each byte of the piece.
  struct Best {
    double score;
    int32_t begin, id;  // begin -1: none yet
  };
  std::vector<Best> best;
  std::vector<int32_t> reversed;
  std::vector<TokenSpan> spans;
  // Work left after the calls that grew it most is not kept beyond this many bytes.
  void Shrink();
};

class SubwordModel {
 public:
  virtual ~SubwordModel() = default;
  /// Appends the ids of a piece of valid UTF-8, which is not empty. Takes time O(n log n) of its n bytes.
  virtual void Encode(std::string_view piece, ModelWorkspace& workspace, std::vector<int32_t>* ids) const = 0;

  const Vocabulary& vocabulary() const { return vocabulary_; }

 protected:
  explicit SubwordModel(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {}
  Vocabulary vocabulary_;
};

/// SentencePiece's models, which can tell the text of an unknown token.
class SpanModel : public SubwordModel {
 public:
  /// Appends the ids of Encode.
  virtual void EncodeSpans(std::string_view piece, ModelWorkspace& workspace, std::vector<TokenSpan>* spans) const = 0;

 protected:
  using SubwordModel::SubwordModel;
};

/// Ids of the tokens "<0x00>" … "<0xFF>"; -1 where there is none.
std::vector<int32_t> ByteTokens(const Vocabulary& vocabulary);

}  // namespace qkv::text
