// Configuration of a sequence model: token embedding, blocks, and logits for every token. It determines tensor shapes
// and arithmetic, and its form in config.json.
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
  kLearned,     // adds a learned vector per position
  kSinusoidal,  // adds a computed vector per position (Vaswani et al. 2017, §3.5)
  kRotary,      // rotates queries and keys by their positions, see nn/rotary.h
};

/// "none", "learned", "sinusoidal", "rotary"
std::string_view Name(SequencePositions positions);
std::optional<SequencePositions> FindSequencePositions(std::string_view name);

/// How tokens are read and printed.
enum class TokenMeaning { kNumber, kByte };

/// "numbers", "bytes"
std::string_view Name(TokenMeaning meaning);
std::optional<TokenMeaning> FindTokenMeaning(std::string_view name);

/// Which token an encoder of whole sequences reads.
enum class TokenPool {
  kNone,      // none: the outputs are of every token
  kLast,      // the last token, padding included (SigLIP)
  kFirstEnd,  // the first token with the id `end_token`; the first token if there is none (Hugging Face's CLIP)
  kGreatest,  // the first token with the greatest id (CLIP, whose end token is the last of the vocabulary)
};

/// "none", "last", "end", "greatest"
std::string_view Name(TokenPool pool);
std::optional<TokenPool> FindTokenPool(std::string_view name);

struct SequenceConfig {
  static constexpr std::string_view kArchitecture = "qkv_sequence";

  int64_t vocabulary = 256;  // token ids are 0 to vocabulary − 1
  int64_t outputs = 256;     // logits per token
  int64_t length = 256;      // maximum number of tokens
  TokenMeaning meaning = TokenMeaning::kNumber;

  nn::BlockConfig block = {.width = 128, .attention = {.heads = 4, .head_width = 32}, .mlp = {.width = 512}};
  int64_t depth = 4;

  SequencePositions positions = SequencePositions::kLearned;
  double rotary_base = nn::RotaryTable::kUsualBase;
  bool causal = false;     // a token sees itself and earlier ones: a decoder. Otherwise all: an encoder
  bool final_norm = true;  // between the blocks and the output
  bool head_bias = true;   // of the output layer
  TokenPool pool = TokenPool::kNone;
  int64_t end_token = 0;  // for kFirstEnd

  /// Tokens in one row.
  nn::TokenGrid grid() const { return {.prefix = 0, .height = 1, .width = length}; }
  bool operator==(const SequenceConfig&) const = default;
};

/// Throws Error if a number is out of range or two of them contradict each other: a rank that the kind lacks, rotary
/// positions with an odd number of features, or with a kind that has no queries and keys computed from tokens (merged,
/// gaussian, positional).
void Validate(const SequenceConfig& config);

/// Throws Error if a token is not in the vocabulary.
void RequireTokens(const SequenceConfig& config, View<const int32_t> tokens);

/// Operations (two per multiply-add) of one sequence of full length; the savings of a causal mask are not counted.
double Flops(const SequenceConfig& config);

/// config.json: {"architecture": "qkv_sequence", "vocabulary": …}. Absent entries have the defaults above, except
/// sizes, which are required; "head_width" defaults to the width divided by the heads, and "mlp_width" to "mlp_ratio"
/// widths. Throws Error that names the entry.
io::Json ToJson(const SequenceConfig& config);
SequenceConfig ParseSequenceConfig(const io::Json& json, const std::string& where = "config.json");

/// True if a config.json, or that of a folder, is of a sequence model; false if the folder has none.
bool DescribesSequenceModel(const io::Json& json);
bool IsSequenceModel(const std::filesystem::path& folder);

}  // namespace qkv::model
