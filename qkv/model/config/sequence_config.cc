#include "qkv/model/config/sequence_config.h"

#include <utility>

#include "qkv/core/error.h"
#include "qkv/core/name_table.h"
#include "qkv/model/checkpoint/model_folder.h"
#include "qkv/model/checkpoint/opening.h"
#include "qkv/model/config/fields.h"

namespace qkv::model {
namespace {

constexpr std::pair<SequencePositions, std::string_view> kPositions[] = {{SequencePositions::kNone, "none"},
                                                                         {SequencePositions::kLearned, "learned"},
                                                                         {SequencePositions::kSinusoidal, "sinusoidal"},
                                                                         {SequencePositions::kRotary, "rotary"}};
constexpr std::string_view kPositionNames = "none, learned, sinusoidal or rotary";

constexpr std::string_view kNumbers = "numbers", kBytes = "bytes";

// What a name of a table stands for.
template <typename T>
T Found(const std::optional<T>& value, const Fields& fields, std::string_view key, std::string_view expected) {
  Require(value.has_value(), "{}: \"{}\" is {}, expected {}", fields.where(), key, io::Quoted(fields.String(key, "")),
          expected);
  return *value;
}

nn::BlockConfig ParseBlock(const Fields& fields) {
  nn::BlockConfig block;
  nn::AttentionConfig& attention = block.attention;
  nn::MlpConfig& mlp = block.mlp;
  block.width = fields.RequiredInt("width");
  attention.heads = fields.RequiredInt("heads");
  RequireRange("the width", block.width, 1, kMaxExtent);
  RequireRange("the number of heads", attention.heads, 1, kMaxExtent);
  Require(fields.Has("head_width") || block.width % attention.heads == 0,
          "config: a width of {} cannot be divided among {} heads; give \"head_width\"", block.width, attention.heads);
  attention.head_width = fields.Int("head_width", block.width / attention.heads);
  mlp.width = fields.Int("mlp_width", HiddenWidth(block.width, fields.Number("mlp_ratio", 4)));
  attention.kind = Found(FindAttentionKind(fields.String("qkv_attention", std::string(Name(attention.kind)))), fields,
                         "qkv_attention", kAttentionKindNames);
  attention.qk_width = fields.Int("qkv_attention_rank", attention.qk_width);
  attention.bias = fields.Bool("qkv_bias", attention.bias);
  attention.qk_norm = fields.Bool("qk_norm", attention.qk_norm);
  block.layer_scale = fields.Bool("layer_scale", block.layer_scale);
  mlp.activation = Found(FindActivation(fields.String("activation", std::string(Name(mlp.activation)))), fields,
                         "activation", kActivationNames);
  if (fields.Bool("gated", false)) mlp.gate = simd::Gate::kFirst;
  block.eps = fields.Number("eps", block.eps);
  return block;
}

}  // namespace

std::string_view Name(SequencePositions positions) { return NameIn(kPositions, positions); }

std::optional<SequencePositions> FindSequencePositions(std::string_view name) {
  return FindIn<SequencePositions>(kPositions, name);
}

void Validate(const SequenceConfig& c) {
  RequireRange("the vocabulary", c.vocabulary, 1, kMaxExtent);
  RequireRange("the number of outputs", c.outputs, 1, kMaxExtent);
  RequireRange("the length", c.length, 1, kMaxExtent);
  Validate(c.block);
  RequireRange("the depth", c.depth, 0, kMaxDepth);
  Require(c.meaning == TokenMeaning::kNumber || c.vocabulary == 256,
          "config: bytes are a vocabulary of 256 tokens, got {}", c.vocabulary);
  Require(c.positions != SequencePositions::kSinusoidal || c.block.width % 2 == 0,
          "config: sinusoidal positions need an even width, got {}", c.block.width);
  if (c.positions != SequencePositions::kRotary) return;
  const nn::AttentionConfig& attention = c.block.attention;
  Require(nn::AllowsRotary(attention.kind),
          "config: rotary positions turn queries and keys of tokens; {} attention has {}", Name(attention.kind),
          attention.kind == nn::AttentionKind::kMerged ? "both in one matrix, which no turn can come between"
                                                       : "scores of places alone");
  Require(attention.query_width() % 2 == 0, "config: rotary positions turn pairs of features, and a head has {}",
          attention.query_width());
  Require(c.rotary_base >= 1 && c.rotary_base <= 1e12, "config: the base of rotary positions is {}, expected 1 to 1e12",
          c.rotary_base);
}

void RequireTokens(const SequenceConfig& config, View<const int32_t> tokens) {
  for (int64_t i = 0; i < tokens.size(); ++i) {
    const int32_t token = tokens.data()[i];
    Require(token >= 0 && token < config.vocabulary, "sequence model: token {} is {}, expected 0 to {}", i, token,
            config.vocabulary - 1);
  }
}

double Flops(const SequenceConfig& c) {
  const double N = static_cast<double>(c.length);
  const double head = 2 * N * static_cast<double>(c.block.width) * static_cast<double>(c.outputs);
  return static_cast<double>(c.depth) * Flops(c.block, N) + head;
}

io::Json ToJson(const SequenceConfig& c) {
  const auto& [width, eps, attention, mlp, layer_scale] = c.block;
  io::Json json = {{"architecture", SequenceConfig::kArchitecture},
                   {"tokens", c.meaning == TokenMeaning::kByte ? kBytes : kNumbers},
                   {"vocabulary", c.vocabulary},
                   {"outputs", c.outputs},
                   {"length", c.length},
                   {"width", width},
                   {"depth", c.depth},
                   {"heads", attention.heads},
                   {"head_width", attention.head_width},
                   {"mlp_width", mlp.width},
                   {"qkv_attention", Name(attention.kind)},
                   {"qkv_bias", attention.bias},
                   {"qk_norm", attention.qk_norm},
                   {"layer_scale", layer_scale},
                   {"activation", Name(mlp.activation)},
                   {"gated", mlp.gate != simd::Gate::kNone},
                   {"eps", eps},
                   {"positions", Name(c.positions)},
                   {"rotary_base", c.rotary_base},
                   {"causal", c.causal}};
  if (attention.qk_width > 0) json["qkv_attention_rank"] = attention.qk_width;
  return json;
}

SequenceConfig ParseSequenceConfig(const io::Json& json, const std::string& where) {
  const Fields fields(json, where);
  const std::string architecture = fields.String("architecture", "");
  Require(architecture == SequenceConfig::kArchitecture, "{}: \"architecture\" is {}, expected \"{}\"", where,
          io::Quoted(architecture), SequenceConfig::kArchitecture);
  SequenceConfig c;
  const std::string meaning = fields.String("tokens", std::string(kNumbers));
  Require(meaning == kNumbers || meaning == kBytes, "{}: \"tokens\" is {}, expected {} or {}", where,
          io::Quoted(meaning), kNumbers, kBytes);
  c.meaning = meaning == kBytes ? TokenMeaning::kByte : TokenMeaning::kNumber;
  c.vocabulary = fields.RequiredInt("vocabulary"), c.outputs = fields.RequiredInt("outputs");
  c.length = fields.RequiredInt("length");
  c.block = ParseBlock(fields);
  c.depth = fields.RequiredInt("depth");
  c.positions = Found(FindSequencePositions(fields.String("positions", std::string(Name(c.positions)))), fields,
                      "positions", kPositionNames);
  c.rotary_base = fields.Number("rotary_base", c.rotary_base);
  c.causal = fields.Bool("causal", c.causal);
  Validate(c);
  return c;
}

bool SaysSequenceModel(const io::Json& json) {
  return json.is_object() && json.contains("architecture") && json["architecture"] == SequenceConfig::kArchitecture;
}

bool IsSequenceModel(const std::filesystem::path& folder) {
  const std::optional<io::Json> config = ReadOptionalJson(folder / kConfigFile);
  return config && SaysSequenceModel(*config);
}

}  // namespace qkv::model
