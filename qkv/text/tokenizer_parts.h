// The parts that readers of files make a Tokenizer from.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "qkv/io/fields.h"
#include "qkv/io/json.h"
#include "qkv/text/added_tokens.h"
#include "qkv/text/decoder.h"
#include "qkv/text/pieces.h"
#include "qkv/text/subword_model.h"
#include "qkv/text/tokenizer.h"

namespace qkv::text {

enum class TokenizerKind;
struct StatedToken;
struct TokenizerSettings;

struct TruncationSettings {
  int64_t max_length = 0;
  bool left = false;  // the beginning is cut off
};

struct PaddingSettings {
  std::optional<int64_t> fixed;  // unset: to the longest of the batch
  int64_t multiple = 0;          // rounded up to a multiple; 0: not
  bool left = false;
  int32_t id = 0;
};

/// Ids before those of the text and behind them. A template may have the text several times or not at all.
struct TemplateItem {
  bool text = false;
  std::vector<int32_t> ids;  // of a special token
  bool once = false;         // left out if the ids so far end with these
};

struct TokenizerParts {
  std::string description;
  bool bytes_input = false;   // the normalizer takes any bytes
  bool encode_empty = false;  // an empty text is not without tokens
  std::vector<Normalizer> normalizers;
  std::vector<PreTokenizer> pre_tokenizers;
  std::unique_ptr<SubwordModel> model;
  std::vector<AddedToken> added;
  std::unordered_map<std::string, size_t> added_index;  // by content
  int32_t max_added_id = -1;
  std::unordered_set<int32_t> class_ids;             // new ones of tokens that a class has and no file states
  std::unordered_set<int32_t> hidden;                // ids that Decode leaves out with the special tokens
  std::vector<std::vector<TemplateItem>> templates;  // applied one after the other
  std::vector<Decoder> decoders;                     // empty: tokens are joined by spaces
  bool trim_decoded = false;                         // white space at both ends of decoded text is removed
  bool clean_decoded = false;                        // CleanUpSpaces at last
  std::optional<TruncationSettings> truncation;
  bool truncates_left = false;             // the caller's truncation cuts the beginning off
  std::optional<PaddingSettings> padding;  // as in the file
  PaddingSettings padding_on_request;      // id and side if the caller wants padding
  std::optional<int64_t> model_max_length;
  SpecialIds special;
  std::vector<io::Setting> settings;  // what was done with each key of the files
};

/// Reads a tokenizer.json. `steps` has the model's options, the steps and the added tokens: the file, or its class's
/// replacement.
TokenizerParts ReadTokenizerJson(const io::Fields& file, const io::Fields& steps);
/// What was done with each of its keys. `is_rebuilt`: the steps are a class's own. Throws Error for keys that it must
/// not have.
std::vector<io::Setting> SettleTokenizerJson(const io::Fields& file, bool is_rebuilt);
/// The vocabulary of vocab.json and the lines of merges.txt, in the form of tokenizer.json.
io::Json VocabularyOfMerges(io::Json vocab, std::string_view merges, std::string_view where);
/// The same for vocab.txt: a token a line, whose number is its id.
io::Json VocabularyOfLines(std::string_view text, std::string_view where);
/// A SentencePiece model by itself, without files beside it.
TokenizerParts ReadSentencePiece(std::string_view bytes, std::string_view where);
/// One with files beside it, of any class but Marian's.
TokenizerParts ReadSentencePieceFolder(std::string_view bytes, TokenizerKind kind, const TokenizerSettings& settings,
                                       std::string_view where);
/// Marian's: a SentencePiece model makes the pieces, and vocab.json has their ids. `decoding` is the model whose
/// normaliser's flags decoding follows.
struct MarianFiles {
  std::string_view encoding, decoding;  // bytes of models
  const io::Json* vocabulary;
};
TokenizerParts ReadMarian(const MarianFiles& files, const TokenizerSettings& settings, std::string_view where);

/// The id of the token as the tokenizer has it: an added one, or one of the model.
std::optional<int32_t> FindToken(const TokenizerParts& parts, std::string_view token);

/// Adds the token with the id that it has already, or the next one, as Hugging Face's library does: an id of the file
/// is not used. One of the same content gets the new flags; one without content is ignored.
void AddToken(AddedToken token, TokenizerParts* parts);

/// Adds the tokens of the settings: stored ones, named ones (`otherwise` unless stated, one of each kNamedTokens), and
/// `extra`.
void AddConfiguredTokens(const TokenizerSettings& settings, std::span<const std::string_view> otherwise,
                         const std::vector<StatedToken>& extra, TokenizerParts* parts);
/// Once more the named and extra ones, without white space around them, as Qwen2's class does.
void AddSpecialTokensAgain(const TokenizerSettings& settings, std::span<const std::string_view> otherwise,
                           const std::vector<StatedToken>& extra, TokenizerParts* parts);
/// The same for transformers' Python classes: stored tokens have the ids that the file states.
void AddPythonTokens(const TokenizerSettings& settings, std::span<const std::string_view> otherwise,
                     const std::vector<StatedToken>& extra, TokenizerParts* parts);

/// An entry of added_tokens; `special`: unless it says otherwise.
AddedToken ReadAddedToken(const io::Fields& fields, bool special);

/// Tokens and ids of a JSON object. Throws Error for an id that is not valid.
Vocabulary ReadVocabulary(const io::Json& json, std::string_view where);

inline constexpr size_t kMaxAddedTokens = size_t{1} << 17;
/// Limit of padding each text by tokenizer.json.
inline constexpr int64_t kMaxPaddedLength = int64_t{1} << 14;

}  // namespace qkv::text
