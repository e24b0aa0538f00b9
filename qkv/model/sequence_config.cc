#include "qkv/model/sequence_config.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "qkv/core/error.h"
#include "qkv/model/fields.h"
#include "qkv/model/folder.h"
#include "qkv/model/opening.h"

namespace qkv::model {
namespace {

constexpr std::pair<SequencePositions, std::string_view> kPositions[] = {{SequencePositions::kNone, "none"},
                                                                         {SequencePositions::kLearned, "learned"},
                                                                         {SequencePositions::kSinusoidal, "sinusoidal"},
                                                                         {SequencePositions::kRotary, "rotary"}};
constexpr std::string_view kPositionNames = "none, learned, sinusoidal or rotary";

constexpr std::string_view kNumbers = "numbers", kBytes = "bytes";

// As of VitConfig: beyond is a mistake or an attack, and products of these still fit.
constexpr int64_t kMost = 1 << 20;

void RequireRange(std::string_view name, int64_t value, int64_t high) {
  Require(value >= 1 && value <= high, "config: {} is {}, expected 1 to {}", name, value, high);
}

// What a name of a table stands for.
template <typename T>
T Found(const std::optional<T>& value, const Fields& fields, std::string_view key, std::string_view expected) {
  Require(value.has_value(), "{}: \"{}\" is {}, expected {}", fields.where(), key, io::Quoted(fields.String(key, "")),
          expected);
  return *value;
}

}  // namespace

std::string_view Name(SequencePositions positions) {
  return std::find_if(std::begin(kPositions), std::end(kPositions),
                      [&](const auto& row) { return row.first == positions; })
      ->second;
}

std::optional<SequencePositions> FindSequencePositions(std::string_view name) {
  const auto row =
      std::find_if(std::begin(kPositions), std::end(kPositions), [&](const auto& r) { return r.second == name; });
  return row == std::end(kPositions) ? std::nullopt : std::optional(row->first);
}

void Validate(const SequenceConfig& c) {
  RequireRange("the vocabulary", c.vocabulary, kMost);
  RequireRange("the number of outputs", c.outputs, kMost);
  RequireRange("the length", c.length, kMost);
  RequireRange("the width", c.width, kMost);
  RequireRange("the number of heads", c.heads, kMost);
  Require(c.width % c.heads == 0, "config: a width of {} cannot be divided among {} heads", c.width, c.heads);
  Require(c.meaning == TokenMeaning::kNumber || c.vocabulary == 256,
          "config: bytes are a vocabulary of 256 tokens, got {}", c.vocabulary);
  const VitConfig blocks = BlocksOf(c);
  Validate(blocks);
  Require(c.positions != SequencePositions::kSinusoidal || c.width % 2 == 0,
          "config: sinusoidal positions need an even width, got {}", c.width);
  if (c.positions != SequencePositions::kRotary) return;
  Require(nn::AllowsRotary(c.attention),
          "config: rotary positions turn queries and keys of tokens; {} attention has {}", Name(c.attention),
          c.attention == nn::AttentionKind::kMerged ? "both in one matrix, which no turn can come between"
                                                    : "scores of places alone");
  Require(blocks.query_width() % 2 == 0, "config: rotary positions turn pairs of features, and a head has {}",
          blocks.query_width());
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

VitConfig BlocksOf(const SequenceConfig& c) {
  VitConfig v;
  v.architecture = SequenceConfig::kArchitecture;
  v.image_height = 1, v.image_width = c.length, v.patch_height = v.patch_width = 1, v.channels = 1;
  v.class_token = false, v.positions = Positions::kNone, v.position_prefix = 0;
  v.width = c.width, v.depth = c.depth, v.heads = c.heads, v.head_width = c.head_width(), v.mlp_width = c.mlp_width();
  v.attention = c.attention, v.qk_width = c.rank;
  v.qkv_bias = c.qkv_bias, v.qk_norm = c.qk_norm, v.layer_scale = c.layer_scale;
  v.activation = c.activation, v.gate = c.gated ? simd::Gate::kFirst : simd::Gate::kNone;
  v.eps = c.eps;
  v.pool = Pool::kMean;  // of no meaning here; the only one that needs nothing else
  return v;
}

std::vector<TensorSpec> TensorTable(const SequenceConfig& c) {
  const VitConfig blocks = BlocksOf(c);
  std::vector<TensorSpec> table = {{"token_embed.weight", {c.vocabulary, c.width}, Role::kToken}};
  if (c.positions == SequencePositions::kLearned) {
    table.push_back({"pos_embed", {1, c.length, c.width}, Role::kPosition});
  }
  for (int64_t block = 0; block < c.depth; ++block) {
    std::ranges::move(BlockTable(blocks, block), std::back_inserter(table));
  }
  table.push_back({"norm.weight", {c.width}, Role::kNorm});
  table.push_back({"norm.bias", {c.width}, Role::kNorm});
  table.push_back({"head.weight", {c.outputs, c.width}, Role::kWeight});
  table.push_back({"head.bias", {c.outputs}, Role::kBias});
  return table;
}

int64_t Parameters(const SequenceConfig& config) { return Elements(TensorTable(config)); }

double Flops(const SequenceConfig& c) {
  const VitConfig blocks = BlocksOf(c);
  const double N = static_cast<double>(c.length), D = static_cast<double>(c.width);
  // Flops counts a product for what makes patches vectors; tokens are looked up.
  const double of_patches = N * D * static_cast<double>(blocks.patch_features());
  return Flops(blocks) + 2 * (N * D * static_cast<double>(c.outputs) - of_patches);
}

io::Json ToJson(const SequenceConfig& c) {
  io::Json json = {{"architecture", SequenceConfig::kArchitecture},
                   {"tokens", c.meaning == TokenMeaning::kByte ? kBytes : kNumbers},
                   {"vocabulary", c.vocabulary},
                   {"outputs", c.outputs},
                   {"length", c.length},
                   {"width", c.width},
                   {"depth", c.depth},
                   {"heads", c.heads},
                   {"mlp_ratio", c.mlp_ratio},
                   {"qkv_attention", Name(c.attention)},
                   {"qkv_bias", c.qkv_bias},
                   {"qk_norm", c.qk_norm},
                   {"layer_scale", c.layer_scale},
                   {"activation", Name(c.activation)},
                   {"gated", c.gated},
                   {"eps", c.eps},
                   {"positions", Name(c.positions)},
                   {"rotary_base", c.rotary_base},
                   {"causal", c.causal}};
  if (c.rank > 0) json["qkv_attention_rank"] = c.rank;
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
  c.width = fields.RequiredInt("width"), c.depth = fields.RequiredInt("depth"), c.heads = fields.RequiredInt("heads");
  c.mlp_ratio = fields.Number("mlp_ratio", c.mlp_ratio);
  c.attention = Found(FindAttentionKind(fields.String("qkv_attention", std::string(Name(c.attention)))), fields,
                      "qkv_attention", kAttentionKindNames);
  c.rank = fields.Int("qkv_attention_rank", c.rank);
  c.qkv_bias = fields.Bool("qkv_bias", c.qkv_bias), c.qk_norm = fields.Bool("qk_norm", c.qk_norm);
  c.layer_scale = fields.Bool("layer_scale", c.layer_scale);
  c.activation = Found(FindActivation(fields.String("activation", std::string(Name(c.activation)))), fields,
                       "activation", kActivationNames);
  c.gated = fields.Bool("gated", c.gated);
  c.eps = fields.Number("eps", c.eps);
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
