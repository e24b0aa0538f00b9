// What a sequence model is: tokens to vectors, the blocks of a Vision Transformer, an answer for every token.
// Everything that decides its tensors' shapes and its arithmetic, and how config.json says it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/io/json.h"
#include "qkv/model/tensor_table.h"
#include "qkv/model/vit_config.h"
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

struct SequenceConfig {
  static constexpr std::string_view kArchitecture = "qkv_sequence";

  int64_t vocabulary = 256;  // token ids are 0 to vocabulary − 1
  int64_t outputs = 256;     // logits of each token
  int64_t length = 256;      // tokens at most
  TokenMeaning meaning = TokenMeaning::kNumber;

  int64_t width = 128, depth = 4, heads = 4;
  double mlp_ratio = 4;
  nn::AttentionKind attention = nn::AttentionKind::kSeparate;
  int64_t rank = 0;  // of kinds that have one: features of a head's queries and keys; 0: the head's width
  bool qkv_bias = true, qk_norm = false, layer_scale = false;
  simd::Activation activation = simd::Activation::kGelu;
  bool gated = false;  // the MLP multiplies activation(g) by v
  double eps = 1e-6;

  SequencePositions positions = SequencePositions::kLearned;
  double rotary_base = nn::RotaryTable::kUsualBase;
  bool causal = false;  // a token sees itself and those before it: a decoder. Else all: an encoder

  int64_t head_width() const { return width / heads; }
  int64_t mlp_width() const { return HiddenWidth(width, mlp_ratio); }
  bool operator==(const SequenceConfig&) const = default;
};

/// Throws Error when a number is out of all proportion or two of them contradict each other: a width that the heads do
/// not divide, a rank that the kind has not, rotary positions of an odd number of features or of a kind whose scores
/// are not of queries and keys that belong to tokens (merged, gaussian, positional).
void Validate(const SequenceConfig& config);

/// Throws Error when a token is not in the vocabulary.
void RequireTokens(const SequenceConfig& config, View<const int32_t> tokens);

/// The blocks as a Vision Transformer's whose tokens are a grid of 1 × length without a class token.
VitConfig BlocksOf(const SequenceConfig& config);

/// Every tensor, in the order of the forward pass: token_embed.weight [V, D], pos_embed [1, N, D] where it is learned,
/// blocks.N.… as of VitConfig and docs/kinds.md, norm, head.weight [outputs, D], head.bias.
std::vector<TensorSpec> TensorTable(const SequenceConfig& config);
int64_t Parameters(const SequenceConfig& config);

/// Multiply-adds (counted twice) of one sequence of full length; a causal mask counts as if it saved nothing.
double Flops(const SequenceConfig& config);

/// config.json: {"architecture": "qkv_sequence", "vocabulary": …}. Entries that are absent have the defaults above, but
/// for the sizes, which must be there. Throws Error that names the entry.
io::Json ToJson(const SequenceConfig& config);
SequenceConfig ParseSequenceConfig(const io::Json& json, const std::string& where = "config.json");

/// Whether a config.json is a sequence model's; and a folder's, false where there is none.
bool SaysSequenceModel(const io::Json& json);
bool IsSequenceModel(const std::filesystem::path& folder);

}  // namespace qkv::model
