// Configuration of a sequence model: token embedding, blocks, and logits for every token; or a part of one, the encoder
// or the decoder of an encoder-decoder. It determines tensor shapes and arithmetic, and its form in config.json.
#pragma once

#include <cstdint>
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
  kLearned,            // adds a learned vector per position
  kSinusoidal,         // adds a computed vector per position (Vaswani et al. 2017, §3.5)
  kSinusoidalHalves,   // the same with all sines first, then all cosines (Marian)
  kSinusoidalFairseq,  // the same in halves, of frequencies from 1 to 1/10000, both included (fairseq, TrOCR)
  kRotary,             // rotates queries and keys by their positions, see nn/rotary.h
  kRelative,           // adds to each score a learned number of its head and distance (Raffel et al. 2020, T5)
};

/// A vector per position is computed.
constexpr bool AreComputed(SequencePositions positions) {
  return positions == SequencePositions::kSinusoidal || positions == SequencePositions::kSinusoidalHalves ||
         positions == SequencePositions::kSinusoidalFairseq;
}

/// "none", "learned", "sinusoidal", "sinusoidal_halves", "sinusoidal_fairseq", "rotary", "relative"
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
  int64_t outputs = 256;     // logits per token; 0: there is no head
  int64_t length = 256;      // maximum number of tokens
  TokenMeaning meaning = TokenMeaning::kNumber;

  nn::BlockConfig block = {.width = 128, .attention = {.heads = 4, .head_width = 32}, .mlp = {.width = 512}};
  int64_t depth = 4;

  SequencePositions positions = SequencePositions::kLearned;
  double rotary_base = nn::RotaryTable::kUsualBase;
  nn::RotaryScaling rotary_scaling = {};
  int64_t position_offset = 0;  // rows of the table before that of the first token (RoBERTa, BART)
  // For kRelative: a table row for each distance, and from the middle on for a range of distances up to the greatest.
  int64_t relative_buckets = 32, relative_distance = 128;
  double embedding_scale = 1;   // factor of the tokens' vectors (Vaswani et al. 2017, §3.4: √D)
  int64_t token_types = 0;      // a vector per type is added to the tokens' (BERT's segments); 0: none
  bool embedding_norm = false;  // after the sum of the embeddings
  bool causal = false;          // a token sees itself and earlier ones: a decoder. Otherwise all: an encoder
  bool final_norm = true;       // between the blocks and the output
  bool head_bias = true;        // of the output layer
  bool tied_head = false;       // the output layer's weight is the tokens' table
  double head_scale = 1;        // factor of the logits before the bias (T5: 1/√D)
  int64_t pooler_width = 0;     // width of tanh(W x + b) of the first token x (BERT's pooler); 0: none
  TokenPool pool = TokenPool::kNone;
  int64_t end_token = 0;  // for kFirstEnd

  // How the file stores weights, which loading brings into the usual form.
  bool rotary_halves = false;    // rotary positions pair features i and i + r/2 (Hugging Face's Llama)
  bool unscaled_scores = false;  // W_Q has the factor 1/√E of the scores (T5)

  /// Tokens in one row.
  nn::TokenGrid grid() const { return {.prefix = 0, .height = 1, .width = length}; }
  bool operator==(const SequenceConfig&) const = default;
};

/// The row of the table of relative positions for a key at this distance, its position less the query's: one for each
/// of the nearest, then logarithmic. With causal, keys lie behind; else both sides have half of the rows.
int64_t RelativeBucket(const SequenceConfig& config, int64_t distance);

/// Throws Error if a number is out of range or two of them contradict each other: a rank that the kind lacks, rotary
/// positions with an odd number of features, or with a kind that has no queries and keys computed from tokens (merged,
/// gaussian, positional).
void Validate(const SequenceConfig& config);

/// Throws Error if a token is not in the vocabulary.
void RequireTokens(const SequenceConfig& config, View<const int32_t> tokens);

/// config.json: {"architecture": "qkv_sequence", "vocabulary": …}. Absent entries have the defaults above, except
/// sizes, which are required; "head_width" defaults to the width divided by the heads, and "mlp_width" to "mlp_ratio"
/// widths. Throws Error that names the entry.
io::Json ToJson(const SequenceConfig& config);
SequenceConfig ParseSequenceConfig(const io::Json& json, const std::string& where = "config.json");

/// True if a config.json is of a sequence model.
bool DescribesSequenceModel(const io::Json& json);

}  // namespace qkv::model
