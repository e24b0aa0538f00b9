// What a sequence model is: an embedding of tokens, blocks, an answer for every token. Everything that decides its
// tensors' shapes and its arithmetic, and how config.json says it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/io/json.h"
#include "qkv/model/config/block_config.h"
#include "qkv/nn/rotary.h"

namespace qkv::model {

enum class SequencePositions {
  kNone,
  kLearned,     // a vector for each place is added
  kSinusoidal,  // a computed one is (Vaswani et al. 2017, §3.5)
  kRotary,      // queries and keys are turned by their places, see nn/rotary.h
};

/// "none", "learned", "sinusoidal", "rotary"
std::string_view Name(SequencePositions positions);
std::optional<SequencePositions> FindSequencePositions(std::string_view name);

/// What a token is to people.
enum class TokenMeaning { kNumber, kByte };

/// "numbers", "bytes"
std::string_view Name(TokenMeaning meaning);
std::optional<TokenMeaning> FindTokenMeaning(std::string_view name);

struct SequenceConfig {
  static constexpr std::string_view kArchitecture = "qkv_sequence";

  int64_t vocabulary = 256;  // token ids are 0 to vocabulary − 1
  int64_t outputs = 256;     // logits of each token
  int64_t length = 256;      // tokens at most
  TokenMeaning meaning = TokenMeaning::kNumber;

  nn::BlockConfig block = {.width = 128, .attention = {.heads = 4, .head_width = 32}, .mlp = {.width = 512}};
  int64_t depth = 4;

  SequencePositions positions = SequencePositions::kLearned;
  double rotary_base = nn::RotaryTable::kUsualBase;
  bool causal = false;     // a token sees itself and those before it: a decoder. Else all: an encoder
  bool final_norm = true;  // between the blocks and the output

  /// Its tokens stand in one row.
  nn::TokenGrid grid() const { return {.prefix = 0, .height = 1, .width = length}; }
  bool operator==(const SequenceConfig&) const = default;
};

/// Throws Error when a number is out of all proportion or two of them contradict each other: a rank that the kind has
/// not, rotary positions of an odd number of features or of a kind whose scores are not of queries and keys that belong
/// to tokens (merged, gaussian, positional).
void Validate(const SequenceConfig& config);

/// Throws Error when a token is not in the vocabulary.
void RequireTokens(const SequenceConfig& config, View<const int32_t> tokens);

/// Multiply-adds (counted twice) of one sequence of full length; a causal mask counts as if it saved nothing.
double Flops(const SequenceConfig& config);

/// config.json: {"architecture": "qkv_sequence", "vocabulary": …}. Entries that are absent have the defaults above, but
/// for the sizes, which must be there; "head_width" is the width divided by the heads unless it is there, and
/// "mlp_width" is "mlp_ratio" widths. Throws Error that names the entry.
io::Json ToJson(const SequenceConfig& config);
SequenceConfig ParseSequenceConfig(const io::Json& json, const std::string& where = "config.json");

/// Whether a config.json is a sequence model's; and a folder's, false where there is none.
bool SaysSequenceModel(const io::Json& json);
bool IsSequenceModel(const std::filesystem::path& folder);

}  // namespace qkv::model
