#include "qkv/mil/config.h"

#include <array>
#include <optional>
#include <utility>

#include "qkv/io/json.h"

namespace qkv::mil {
namespace {

using model::Role;

constexpr const char* kArchitecture = "qkv_mil";

template <typename E, size_t n>
E ParseWord(const std::array<E, n>& values, const io::Fields& fields, const char* key) {
  const std::string text = fields.RequiredString(key);
  std::string known;
  for (const E value : values) {
    if (Name(value) == text) return value;
    known += (known.empty() ? "" : ", ") + std::string(Name(value));
  }
  Fail("{}: {} is {}, expected one of {}", fields.where(), key, io::Quoted(text), known);
}

constexpr std::array kArchitectures = {Architecture::kGated, Architecture::kTransformer};
constexpr std::array kPositions = {TilePositions::kNone, TilePositions::kRotary, TilePositions::kSines};
constexpr std::array kPools = {BagPool::kGated, BagPool::kToken};

void AddLinear(const std::string& prefix, int64_t outputs, int64_t inputs, std::vector<model::TensorSpec>* table) {
  table->push_back({prefix + "weight", {outputs, inputs}, Role::kWeight});
  table->push_back({prefix + "bias", {outputs}, Role::kBias});
}

void ValidateTransformer(const MilConfig& c) {
  const nn::AttentionConfig& attention = c.block.attention;
  model::RequireRange("depth", c.depth, 1, 64);
  model::Validate(c.block);
  Require(!nn::IsPositional(attention.kind),
          "mil: {} attention has scores of places in a full grid, and a slide's tiles are scattered; expected another "
          "kind",
          model::Name(attention.kind));
  Require(c.positions != TilePositions::kRotary || nn::AllowsRotary(attention.kind),
          "mil: {} attention has no query and key of a tile that rotary positions could turn; expected sines or none",
          model::Name(attention.kind));
  Require(c.positions != TilePositions::kRotary || attention.score_width() % 4 == 0,
          "mil: rotary positions by row and column turn pairs of features: expected a multiple of 4 in a head, got {}",
          attention.score_width());
  Require(c.positions != TilePositions::kSines || c.width() % 4 == 0,
          "mil: sines and cosines of row and column need a width of a multiple of 4, got {}", c.width());
  Require(!c.block.cross && !attention.has_window() && attention.bias_rows == 0 && !attention.of_source,
          "mil: blocks over tiles have neither cross-attention nor windows nor biases by position");
}

}  // namespace

std::string_view Name(Architecture architecture) {
  return architecture == Architecture::kGated ? "abmil" : "transformer";
}

std::string_view Name(TilePositions positions) {
  switch (positions) {
    case TilePositions::kNone:
      return "none";
    case TilePositions::kRotary:
      return "rotary";
    case TilePositions::kSines:
      return "sines";
  }
  return "";
}

std::string_view Name(BagPool pool) { return pool == BagPool::kGated ? "attention" : "token"; }

void Validate(const MilConfig& c) {
  model::RequireRange("inputs", c.inputs, 1, model::kMaxExtent);
  model::RequireRange("width", c.width(), 1, model::kMaxExtent);
  model::RequireRange("gate_width", c.gate_width, 1, model::kMaxExtent);
  model::RequireRange("classes", c.outputs(), 2, 4096);
  Require(c.rotary_base > 1 && c.rotary_base <= 1e9, "mil: rotary_base {} is out of range, expected 1 to 1e9",
          c.rotary_base);
  if (c.architecture == Architecture::kTransformer) return ValidateTransformer(c);
  Require(c.depth == 0 && c.positions == TilePositions::kNone && c.pool == BagPool::kGated,
          "mil: abmil has no blocks, no positions and no class token; expected transformer for these");
}

std::vector<model::TensorSpec> MilTable(const MilConfig& c) {
  const bool gated = c.architecture == Architecture::kGated;
  const std::string pool = gated ? "attention_net.3." : "pool.";
  std::vector<model::TensorSpec> table;
  AddLinear(gated ? "attention_net.0." : "embed.", c.width(), c.inputs, &table);
  if (c.prefix() > 0) table.push_back({"cls_token", {1, c.width()}, Role::kToken});
  if (c.pool == BagPool::kGated) {
    AddLinear(pool + "attention_a.0.", c.gate_width, c.width(), &table);
    AddLinear(pool + "attention_b.0.", c.gate_width, c.width(), &table);
    AddLinear(pool + "attention_c.", 1, c.gate_width, &table);
  }
  if (gated) AddLinear("classifiers.", c.outputs(), c.width(), &table);
  return table;
}

io::Json ToJson(const MilConfig& c) {
  io::Json json = {{kArchitecture, Name(c.architecture)},
                   {"inputs", c.inputs},
                   {"width", c.width()},
                   {"gate_width", c.gate_width},
                   {"classes", c.classes}};
  if (c.architecture == Architecture::kGated) return json;
  const nn::AttentionConfig& attention = c.block.attention;
  json["depth"] = c.depth;
  json["heads"] = attention.heads;
  json["mlp_width"] = c.block.mlp.width;
  json["qkv_attention"] = model::Name(attention.kind);
  json["qkv_attention_rank"] = attention.qk_width;
  json["qk_norm"] = attention.qk_norm;
  json["positions"] = Name(c.positions);
  json["rotary_base"] = c.rotary_base;
  json["pool"] = Name(c.pool);
  return json;
}

MilConfig MilConfigFromJson(const io::Json& json, const std::string& where) {
  const io::Fields fields(json, where);
  MilConfig c;
  c.architecture = ParseWord(kArchitectures, fields, kArchitecture);
  c.inputs = fields.RequiredInt("inputs");
  c.block.width = fields.RequiredInt("width");
  c.gate_width = fields.RequiredInt("gate_width");
  for (const io::Json& name : fields.List("classes")) {
    Require(name.is_string(), "{}: classes: expected names", where);
    c.classes.push_back(name.get<std::string>());
  }
  if (c.architecture == Architecture::kTransformer) {
    nn::AttentionConfig& attention = c.block.attention;
    const std::string kind = fields.RequiredString("qkv_attention");
    const std::optional<nn::AttentionKind> found = model::FindAttentionKind(kind);
    Require(found.has_value(), "{}: qkv_attention is {}, expected {}", where, io::Quoted(kind),
            model::kAttentionKindNames);
    attention.kind = *found;
    attention.heads = fields.RequiredInt("heads");
    model::RequireRange("heads", attention.heads, 1, model::kMaxExtent);
    Require(c.width() > 0 && c.width() % attention.heads == 0, "{}: width {} is no multiple of {} heads", where,
            c.width(), attention.heads);
    attention.head_width = c.width() / attention.heads;
    attention.qk_width = fields.RequiredInt("qkv_attention_rank");
    attention.qk_norm = fields.Bool("qk_norm", false);
    c.depth = fields.RequiredInt("depth");
    c.block.mlp.width = fields.RequiredInt("mlp_width");
    c.positions = ParseWord(kPositions, fields, "positions");
    c.rotary_base = fields.Number("rotary_base", 0);
    c.pool = ParseWord(kPools, fields, "pool");
  }
  io::RequireKnown(fields.Settle({}));
  Validate(c);
  return c;
}

}  // namespace qkv::mil
