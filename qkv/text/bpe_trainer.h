// Learns a vocabulary of byte-level BPE (GPT-2's) from texts, with the merges that Hugging Face's BpeTrainer learns
// behind its ByteLevel pre-tokenizer, and writes it as tokenizer.json.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "qkv/text/pieces.h"

namespace qkv::text {

struct BpeTrainerOptions {
  int64_t vocabulary_size = 8192;           // tokens in all: special ones, the 256 bytes, and merges
  int64_t min_frequency = 0;                // pairs that are rarer are not merged
  std::vector<std::string> special_tokens;  // the first ids, in this order
  bool add_prefix_space = false;  // a text without a space in front gets one, so that its first word is like others
};

/// A trained vocabulary.
struct TrainedBpe {
  std::vector<std::string> tokens;                  // by id, in the alphabet of bytes (byte_level.h)
  std::vector<std::pair<int32_t, int32_t>> merges;  // ids of their two tokens, the most important first
  int64_t special_tokens = 0;                       // how many of the tokens
  bool add_prefix_space = false;
};

/// Counts the words of texts, then merges the most frequent pair again and again; of equally frequent pairs that of the
/// lower ids. The result depends on the words and their numbers only. Takes about 40 bytes for each byte of different
/// words, and time O(n log n) of these n bytes.
class BpeTrainer {
 public:
  /// Throws Error if the vocabulary is too small for the special tokens and the bytes, or larger than 2²⁴.
  explicit BpeTrainer(BpeTrainerOptions options);

  /// Counts the words of a text; invalid UTF-8 is U+FFFD. Throws Error beyond 2²⁸ bytes of different words.
  void Add(std::string_view text);
  /// May have fewer tokens than asked for if the texts have no more pairs.
  TrainedBpe Train() const;

 private:
  BpeTrainerOptions options_;
  PreTokenizer split_;
  std::unordered_map<std::string, int64_t> words_;  // and how often each is there
  size_t bytes_ = 0;                                // of words_
};

/// The special tokens that the written tokenizer uses; each is one of the trained ones. Empty: none.
struct BpeRoles {
  std::string begin, end, padding, unknown;
  bool add_begin = false, add_end = false;  // to each text
  std::optional<int64_t> model_max_length;
};

/// The text of tokenizer.json, and of tokenizer_config.json beside it. Throw Error for a role without a token.
std::string TokenizerJson(const TrainedBpe& bpe, const BpeRoles& roles);
std::string TokenizerConfigJson(const BpeRoles& roles);
/// Writes both into an existing folder.
void WriteTokenizer(const TrainedBpe& bpe, const BpeRoles& roles, const std::filesystem::path& folder);

}  // namespace qkv::text
