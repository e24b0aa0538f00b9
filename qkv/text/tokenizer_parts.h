// What the readers of files make a Tokenizer of.
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

#include "qkv/io/json.h"
#include "qkv/text/added_tokens.h"
#include "qkv/text/decoder.h"
#include "qkv/text/json_fields.h"
#include "qkv/text/pieces.h"
#include "qkv/text/subword_model.h"
#include "qkv/text/tokenizer.h"

namespace qkv::text {

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

/// Ids in front of those of the text and behind them. A template may have the text several times or not at all.
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
  std::unordered_set<int32_t> hidden;                // ids that Decode leaves out with the special tokens
  std::vector<std::vector<TemplateItem>> templates;  // applied one after the other
  std::vector<Decoder> decoders;                     // empty: tokens are joined by spaces
  bool trim_decoded = false;                         // white space at both ends of decoded text is removed
  bool clean_decoded = false;                        // CleanUpSpaces at last
  std::optional<TruncationSettings> truncation;
  std::optional<PaddingSettings> padding;  // as in the file
  PaddingSettings padding_on_request;      // id and side if the caller wants padding
  std::optional<int64_t> model_max_length;
  SpecialIds special;
};

/// A file each; `where` names them in errors.
TokenizerParts ReadTokenizerJson(const io::Json& json, std::string_view where);
/// vocab.json and the lines of merges.txt. `config` is tokenizer_config.json and special_tokens_map.json, or empty.
TokenizerParts ReadVocabAndMerges(const io::Json& vocab, std::string_view merges, const io::Json& config,
                                  std::string_view where);
TokenizerParts ReadSentencePiece(std::string_view bytes, const io::Json& config, std::string_view where);
/// vocab.txt of BERT and its kin: a token a line, whose number is its id.
TokenizerParts ReadVocabTxt(std::string_view text, const io::Json& config, std::string_view where);
/// Marian's: a SentencePiece model makes the pieces, and vocab.json has their ids. `decoding` is the model whose
/// normaliser's flags decoding follows.
struct MarianFiles {
  std::string_view encoding, decoding;  // bytes of models
  const io::Json* vocabulary;
};
TokenizerParts ReadMarian(const MarianFiles& files, const io::Json& config, std::string_view where);

/// Adds what tokenizer_config.json says: special tokens, model_max_length, padding_side.
void ApplyTokenizerConfig(const io::Json& config, TokenizerParts* parts);

/// The content of a token that is a string or an object with "content"; empty if there is none.
std::string TokenContent(const io::Json& config, std::string_view key);
std::string TokenOr(const io::Json& config, std::string_view key, std::string_view otherwise);

/// The id of the token as the tokenizer has it: an added one, or one of the model.
std::optional<int32_t> FindToken(const TokenizerParts& parts, std::string_view token);

/// The next id of a token that is not in the vocabulary.
int32_t NextAddedId(const TokenizerParts& parts);

/// Adds the token with the id that it has already, or the next one, as Hugging Face's library does: an id of the file
/// is not used. A token of the same content is replaced; one without content is ignored.
void AddToken(AddedToken token, TokenizerParts* parts);

/// An entry of added_tokens; `special`: unless it says otherwise.
AddedToken ReadAddedToken(const JsonFields& fields, bool special);

/// A token that a class of transformers has: its key in tokenizer_config.json, and what it is unless that names it.
struct NamedToken {
  std::string_view key, otherwise;  // otherwise empty: none
};
/// What becomes of a named token that the vocabulary lacks.
enum class NewTokens { kAdd, kLeaveOut };
/// Adds the tokens that tokenizer_config.json, special_tokens_map.json and added_tokens.json name, in the order of
/// transformers: files of before tokenizer.json have no others.
void AddConfiguredTokens(const io::Json& config, std::span<const NamedToken> named, std::string_view where,
                         NewTokens new_tokens, TokenizerParts* parts);

/// Tokens and ids of a JSON object. Throws Error for an id that is none.
Vocabulary ReadVocabulary(const io::Json& json, std::string_view where);

/// Name under which the configuration has the object of added_tokens.json.
inline constexpr std::string_view kAddedTokensFile = "added_tokens.json";

inline constexpr size_t kMaxAddedTokens = size_t{1} << 17;
/// Of each text, by padding in tokenizer.json.
inline constexpr int64_t kMaxPaddedLength = int64_t{1} << 14;

}  // namespace qkv::text
