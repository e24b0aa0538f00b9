// Training data of encoder-decoders: tokens of a source and a target text a line, and batches of texts of similar
// lengths.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "qkv/core/tensor.h"
#include "qkv/model/families/hf_marian.h"
#include "qkv/text/tokenizer.h"
#include "qkv/train/network/pair_network.h"
#include "qkv/train/sequences/pair_texts.h"

namespace qkv::train {

/// Token ids of many texts.
class TokenTexts {
 public:
  int64_t size() const { return std::ssize(begin_) - 1; }
  std::span<const int32_t> operator[](int64_t i) const {
    const auto at = static_cast<size_t>(i);
    return std::span(ids_).subspan(begin_[at], begin_[at + 1] - begin_[at]);
  }
  int64_t length(int64_t i) const { return std::ssize((*this)[i]); }
  void Add(std::span<const int32_t> ids) {
    ids_.insert(ids_.end(), ids.begin(), ids.end());
    begin_.push_back(ids_.size());
  }

 private:
  std::vector<int32_t> ids_;
  std::vector<size_t> begin_ = {0};
};

/// Tokens of both sides; each text ends with the end token.
struct PairSet {
  TokenTexts source, target;
  std::vector<int64_t> lines;  // the lines of the texts that these are
  int64_t left_out = 0;        // lines that were too long

  int64_t size() const { return source.size(); }
};

/// The tokenizer of sources and that of targets, which most models share, with the files that they were read from, for
/// the folder of a model.
struct PairTokenizer {
  text::Tokenizer tokenizer, target;
  std::vector<std::pair<std::string, std::string>> files;  // names and contents
  model::TextTokens tokens;
};

/// On all cores. Lines with more than `length` tokens on a side, the end token included, are left out. most: lines
/// after so many that fit are not read; 0: all are. Throws Error as Tokenizer::Encode.
PairSet EncodePairs(const PairTexts& texts, const PairTokenizer& tokenizer, int64_t length, int64_t most = 0);

/// Tokens of all sources / tokens of all targets; 1 of an empty set.
double SourceTokensPerTargetToken(const PairSet& set);

/// Padded tensors of some lines.
struct PairBatch {
  Tensor<int32_t> source, target;                  // [B, N], [B, M]
  Tensor<int64_t> source_lengths, target_lengths;  // [B]
  Tensor<int64_t> labels;                          // [B, M], kIgnoredLabel at padding

  PairInput input() const { return {source.view(), source_lengths.view(), target.view(), target_lengths.view()}; }
  int64_t size() const { return source.dim(0); }
};

/// lines: numbers of the lines; `padded` of them as long as the longest of these, so that parts of a batch have one
/// shape; empty: of `lines`.
void FillPairBatch(const PairSet& set, std::span<const int64_t> lines, const model::TextTokens& tokens,
                   PairBatch* batch, std::span<const int64_t> padded = {});

/// Lines of similar lengths in each batch. In each epoch every line comes once, with others of about its lengths, and
/// the batches come in another order; both depend on the seed and the epoch alone.
class PairBatches {
 public:
  /// tokens: limit of the padded tokens of both sides of a batch, which has one line at least. The set must outlive it.
  PairBatches(const PairSet& set, int64_t tokens, uint64_t seed);

  int64_t size() const { return std::ssize(begin_) - 1; }  // of an epoch
  /// Lines of batch 0, 1, …; the first size() are the first epoch.
  std::vector<int64_t> Lines(int64_t batch) const;

 private:
  uint64_t seed_;
  std::vector<int64_t> order_;      // lines by their buckets
  std::vector<int64_t> bucket_of_;  // the first place in order_ of each place's bucket
  std::vector<int64_t> bucket_end_;
  std::vector<int64_t> begin_;  // places of the batches
};

/// Learns a vocabulary of both sides, byte-level BPE, of at most so many tokens.
PairTokenizer LearnTokenizer(const PairTexts& texts, int64_t vocabulary);
/// Opens that of a folder. Throws Error if it names no end or padding token and `tokens` is not given.
PairTokenizer OpenTokenizer(const std::filesystem::path& folder, std::optional<model::TextTokens> tokens = {});

/// The data that training uses.
struct PairData {
  std::string summary;  // "pairs: 1000 lines to train on, …", for display
  PairTokenizer tokenizer;
  PairSet train, validation;
  PairTexts validation_texts;  // as they stand in the file
  uint64_t fingerprint = 0;    // identifies the data
};

}  // namespace qkv::train
