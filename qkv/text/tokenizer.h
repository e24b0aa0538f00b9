// Text to the ids that a model was trained on, and back. Reads the files of Hugging Face (tokenizer.json, or vocab.json
// with merges.txt, or vocab.txt), of SentencePiece (spiece.model, tokenizer.model) and of Marian (source.spm,
// target.spm, vocab.json), and gives the ids of the original libraries.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/io/fields.h"

namespace qkv::text {

struct TokenizerParts;

/// The length that an encoding is padded to.
enum class Padding {
  kAsInFile,  // tokenizer.json may ask for it; other files do not
  kNone,
  kMaxLength,  // to EncodeOptions::max_length, or the file's model_max_length
  kLongest,    // to the longest of the batch
};

struct EncodeOptions {
  bool add_special_tokens = true;     // as the file says: CLIP's begin and end, SigLIP's end, …
  std::optional<int64_t> max_length;  // longer texts are cut, special tokens are kept; unset: as in the file
  Padding padding = Padding::kAsInFile;
};

/// Texts of one length.
struct TokenBatch {
  int64_t rows = 0, columns = 0;
  std::vector<int32_t> ids;      // [rows, columns]
  std::vector<uint8_t> mask;     // [rows, columns], 1 at tokens, 0 at padding
  std::vector<int64_t> lengths;  // [rows], without padding
};

/// Ids of the special tokens that the files name.
struct SpecialIds {
  std::optional<int32_t> begin, end, padding, unknown, classify, separate, mask;
};

/// Const members may be called from several threads. Copies share everything.
class Tokenizer {
 public:
  /// Opens a folder with tokenizer.json, or else source.spm and vocab.json, or else vocab.json and merges.txt, or else
  /// vocab.txt, or else spiece.model or tokenizer.model; tokenizer_config.json, special_tokens_map.json,
  /// added_tokens.json and the class in config.json count too if they are there (tokenizer_class.h has the rule). Or
  /// one of these files alone. Throws Error if there is none, or if it needs what is not supported, which the error
  /// names. lower_case: texts become lower-case before all other steps.
  static Tokenizer Open(const std::filesystem::path& path, bool lower_case = false);
  /// The tokenizer of the target language: Marian's encodes by target.spm, and has ids of its own if separate_vocabs is
  /// set. All others have one for both sides, which Open gives too.
  static Tokenizer OpenTarget(const std::filesystem::path& path);

  /// The text of a tokenizer.json, and of a SentencePiece model. `where` names them in errors.
  static Tokenizer FromJson(std::string_view json, std::string_view where);
  static Tokenizer FromSentencePiece(std::string_view bytes, std::string_view where);

  /// Invalid UTF-8 becomes U+FFFD, as the original does: SentencePiece for each byte, tokenizer.json for each maximal
  /// part of a character. Throws Error if the text needs an unknown token and there is none, and if max_length is less
  /// than the number of special tokens. Time and memory are proportional to the text: Error if the tokenizer's files
  /// make it more than 32 times as long, or more than 1,024 steps a byte (qkv/core/work.h).
  std::vector<int32_t> Encode(std::string_view text, const EncodeOptions& options = {}) const;
  /// On all cores. Throws Error like Encode, if the texts have different lengths without padding, and beyond 2²⁶
  /// tokens.
  TokenBatch EncodeBatch(std::span<const std::string> texts, const EncodeOptions& options = {}) const;

  /// Throws Error for an id outside of the vocabulary, for tokens of more than 512 bytes an id, and for steps as
  /// Encode. Special tokens are left out unless `special_tokens`.
  std::string Decode(std::span<const int32_t> ids, bool special_tokens = false) const;

  std::optional<int32_t> IdOf(std::string_view token) const;
  /// As it stands in the file: "Ġthe", "▁the", "the</w>".
  std::optional<std::string> TokenOf(int32_t id) const;
  /// The same for people: bytes that byte-level BPE writes as characters of its own are text again, each space of it is
  /// "▁" as in SentencePiece's pieces ("Ġthe" becomes "▁the"), and what cannot be printed is escaped ("\n", "\xe2"). An
  /// id without a token is "<ID>".
  std::string ReadableToken(int32_t id) const;
  /// Number of different tokens, added ones among them.
  int64_t size() const;
  /// The highest id: a model's table of embeddings needs one row more.
  int32_t max_id() const;
  /// The same without tokens that the tokenizer's class adds and no file states: models may lack rows for these.
  int32_t max_stated_id() const;
  const SpecialIds& special() const;
  /// True for special tokens, which Decode leaves out.
  bool IsHidden(int32_t id) const;
  /// model_max_length of tokenizer_config.json.
  std::optional<int64_t> model_max_length() const;
  /// True if a text that is too long loses its beginning (truncation_side of tokenizer_config.json), not its end.
  bool truncates_left() const;
  /// What was done with each key of its files.
  const std::vector<io::Setting>& settings() const;
  /// The model and where it comes from: "BPE (tokenizer.json)".
  const std::string& description() const;

 private:
  explicit Tokenizer(TokenizerParts parts);
  friend class StreamingDecoder;
  // True if the end of decoded text may become another one when tokens follow.
  bool MayChange(std::string_view text) const;
  struct State;
  std::shared_ptr<const State> state_;
};

/// Text of ids as they come: each call returns what has become certain. A character whose bytes are tokens of their own
/// comes when its last byte is there.
class StreamingDecoder {
 public:
  explicit StreamingDecoder(Tokenizer tokenizer) : tokenizer_(std::move(tokenizer)) {}
  /// The new text, maybe empty. Throws Error like Decode.
  std::string Add(int32_t id);
  /// The rest, in which incomplete characters are U+FFFD. The next Add begins a new text.
  std::string Finish();

 private:
  Tokenizer tokenizer_;
  std::vector<int32_t> ids_;  // of which the text up to `shown_` bytes was returned
  size_t shown_ = 0;
  size_t next_ = 0;  // ids at which to decode again
};

}  // namespace qkv::text
