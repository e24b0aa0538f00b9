#include "qkv/model/config/sequence_config.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "qkv/core/error.h"
#include "qkv/core/name_table.h"
#include "qkv/io/fields.h"
#include "qkv/model/config/config_fields.h"

namespace qkv::model {
namespace {

constexpr std::pair<SequencePositions, std::string_view> kPositions[] = {
    {SequencePositions::kNone, "none"},
    {SequencePositions::kLearned, "learned"},
    {SequencePositions::kSinusoidal, "sinusoidal"},
    {SequencePositions::kSinusoidalHalves, "sinusoidal_halves"},
    {SequencePositions::kSinusoidalFairseq, "sinusoidal_fairseq"},
    {SequencePositions::kRotary, "rotary"},
    {SequencePositions::kRelative, "relative"}};
constexpr std::string_view kPositionNames =
    "none, learned, sinusoidal, sinusoidal_halves, sinusoidal_fairseq, rotary or relative";

constexpr std::pair<TokenMeaning, std::string_view> kMeanings[] = {{TokenMeaning::kNumber, "numbers"},
                                                                   {TokenMeaning::kByte, "bytes"}};

constexpr std::pair<TokenPool, std::string_view> kTokenPools[] = {{TokenPool::kNone, "none"},
                                                                  {TokenPool::kLast, "last"},
                                                                  {TokenPool::kFirstEnd, "end"},
                                                                  {TokenPool::kGreatest, "greatest"}};
constexpr std::string_view kTokenPoolNames = "none, last, end or greatest";

template <typename Visitor>
void VisitFields(SequenceConfig& c, Visitor& visit) {
  visit.Enum("tokens", c.meaning, FindTokenMeaning, "numbers or bytes");
  visit.Int("vocabulary", "the vocabulary", c.vocabulary, 1, kMaxExtent);
  visit.Int("outputs", "the number of outputs", c.outputs, 0, kMaxExtent);
  visit.Int("length", "the length", c.length, 1, kMaxExtent);
  VisitFields(c.block, visit);
  visit.Int("depth", "the depth", c.depth, 0, kMaxDepth);
  visit.Enum("positions", c.positions, FindSequencePositions, kPositionNames);
  visit.Number("rotary_base", "the base of rotary positions", c.rotary_base, 1, 1e12);
  visit.Number("rotary_factor", "the factor of rotary positions", c.rotary_scaling.factor, 1e-6, 1e6, 1);
  visit.Number("rotary_low", "the low factor of rotary positions", c.rotary_scaling.low, 0, 1e6, 1);
  visit.Number("rotary_high", "the high factor of rotary positions", c.rotary_scaling.high, 0, 1e6, 4);
  visit.Int("rotary_trained", "the trained length of rotary positions", c.rotary_scaling.trained, 0, kMaxExtent, 0);
  visit.Int("position_offset", "the offset of positions", c.position_offset, 0, kMaxExtent, 0);
  visit.Int("relative_buckets", "the number of relative positions", c.relative_buckets, 4, kMaxExtent, 32);
  visit.Int("relative_distance", "the greatest distance of relative positions", c.relative_distance, 1, kMaxExtent,
            128);
  visit.Number("embedding_scale", "the factor of embeddings", c.embedding_scale, 0, 1e6, 1);
  visit.Int("token_types", "the number of token types", c.token_types, 0, kMaxExtent, 0);
  visit.Bool("embedding_norm", c.embedding_norm, false);
  visit.Bool("causal", c.causal);
  visit.Bool("final_norm", c.final_norm, true);
  visit.Bool("head_bias", c.head_bias, true);
  visit.Bool("tied_head", c.tied_head, false);
  visit.Number("head_scale", "the factor of logits", c.head_scale, 0, 1e6, 1);
  visit.Int("pooler_width", "the pooler's width", c.pooler_width, 0, kMaxExtent, 0);
  visit.Enum("pool", c.pool, FindTokenPool, kTokenPoolNames, TokenPool::kNone);
  visit.Int("end_token", "the end token", c.end_token, 0, kMaxExtent, 0);
  visit.Bool("rotary_halves", c.rotary_halves, false);
  visit.Bool("unscaled_scores", c.unscaled_scores, false);
}

}  // namespace

std::string_view Name(TokenMeaning meaning) { return FindName(kMeanings, meaning); }
std::optional<TokenMeaning> FindTokenMeaning(std::string_view name) { return FindIn<TokenMeaning>(kMeanings, name); }

std::string_view Name(SequencePositions positions) { return FindName(kPositions, positions); }

std::optional<SequencePositions> FindSequencePositions(std::string_view name) {
  return FindIn<SequencePositions>(kPositions, name);
}

std::string_view Name(TokenPool pool) { return FindName(kTokenPools, pool); }
std::optional<TokenPool> FindTokenPool(std::string_view name) { return FindIn<TokenPool>(kTokenPools, name); }

void Validate(const SequenceConfig& c) {
  SequenceConfig fields = c;
  FieldBounds bounds;
  VisitFields(fields, bounds);
  Validate(c.block);
  Require(c.meaning == TokenMeaning::kNumber || c.vocabulary == 256,
          "config: bytes are a vocabulary of 256 tokens, got {}", c.vocabulary);
  Require(!c.tied_head || c.outputs == c.vocabulary,
          "config: a head with the tokens' vectors has an output a token, and there are {} of {}", c.outputs,
          c.vocabulary);
  Require(!AreComputed(c.positions) || c.block.width % 2 == 0,
          "config: sinusoidal positions need an even width, got {}", c.block.width);
  Require(c.positions != SequencePositions::kSinusoidalFairseq || c.block.width > 2,
          "config: fairseq's sinusoidal positions need a width of 4 at least, got {}", c.block.width);
  Require(c.positions != SequencePositions::kRelative ||
              (c.block.attention.kind != nn::AttentionKind::kGaussian && c.relative_distance > c.relative_buckets / 2),
          "config: relative positions up to {} in {} rows, or of {} attention, which has scores of its own",
          c.relative_distance, c.relative_buckets, Name(c.block.attention.kind));
  if (c.positions != SequencePositions::kRotary) return;
  Require(c.rotary_scaling.low < c.rotary_scaling.high,
          "config: the low factor of rotary positions is {}, expected less than the high one, {}", c.rotary_scaling.low,
          c.rotary_scaling.high);
  const nn::AttentionConfig& attention = c.block.attention;
  Require(nn::AllowsRotary(attention.kind),
          "config: rotary positions turn queries and keys of tokens; {} attention has {}", Name(attention.kind),
          attention.kind == nn::AttentionKind::kMerged ? "both in one matrix, which no turn can come between"
                                                       : "scores of places alone");
  Require(attention.score_width() % 2 == 0, "config: rotary positions turn pairs of features, and a head has {}",
          attention.score_width());
}

int64_t RelativeBucket(const SequenceConfig& c, int64_t distance) {
  const int64_t rows = c.causal ? c.relative_buckets : c.relative_buckets / 2, exact = rows / 2;
  const int64_t side = !c.causal && distance > 0 ? rows : 0;
  const int64_t away = c.causal ? std::max<int64_t>(0, -distance) : std::abs(distance);
  if (away < exact) return side + away;
  // The original computes in float.
  const float part =
      std::log(static_cast<float>(away) / static_cast<float>(exact)) /
      static_cast<float>(std::log(static_cast<double>(c.relative_distance) / static_cast<double>(exact)));
  const auto far = exact + static_cast<int64_t>(part * static_cast<float>(rows - exact));
  return side + std::min(far, rows - 1);
}

void RequireTokens(const SequenceConfig& config, View<const int32_t> tokens) {
  for (int64_t i = 0; i < tokens.size(); ++i) {
    const int32_t token = tokens.data()[i];
    Require(token >= 0 && token < config.vocabulary, "sequence model: token {} is {}, expected 0 to {}", i, token,
            config.vocabulary - 1);
  }
}

io::Json ToJson(const SequenceConfig& config) {
  SequenceConfig c = config;
  io::Json json = {{"architecture", SequenceConfig::kArchitecture}};
  FieldWriter writer(&json);
  VisitFields(c, writer);
  return json;
}

SequenceConfig ParseSequenceConfig(const io::Json& json, const std::string& where) {
  const io::Fields fields(json, where);
  const std::string architecture = fields.String("architecture", "");
  Require(architecture == SequenceConfig::kArchitecture, "{}: \"architecture\" is {}, expected \"{}\"", where,
          io::Quoted(architecture), SequenceConfig::kArchitecture);
  for (const char* size : {"vocabulary", "outputs", "length", "width", "heads", "depth"}) fields.RequiredInt(size);
  SequenceConfig c;
  // Defaults of absent widths.
  const int64_t width = fields.Int("width", 0), heads = fields.Int("heads", 0);
  RequireRange("the width", width, 1, kMaxExtent);
  RequireRange("the number of heads", heads, 1, kMaxExtent);
  Require(fields.Has("head_width") || width % heads == 0,
          "config: a width of {} cannot be divided among {} heads; give \"head_width\"", width, heads);
  c.block.attention.head_width = width / heads;
  c.block.mlp.width = HiddenWidth(width, fields.Number("mlp_ratio", 4));
  FieldReader reader(fields);
  VisitFields(c, reader);
  Validate(c);
  return c;
}

bool DescribesSequenceModel(const io::Json& json) {
  return json.is_object() && json.contains("architecture") && json["architecture"] == SequenceConfig::kArchitecture;
}

}  // namespace qkv::model
