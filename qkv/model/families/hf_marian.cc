// Hugging Face transformers: Marian (Junczys-Dowmunt et al. 2018), encoder-decoders that translate, such as the OPUS-MT
// models; `qkv train` writes this layout for pairs of texts (hf_marian.h).
#include "qkv/model/families/hf_marian.h"

#include <array>
#include <cmath>

#include "qkv/core/error.h"
#include "qkv/model/families/hf_common.h"
#include "qkv/model/families/text_family.h"
#include "qkv/model/layout/positions.h"
#include "qkv/model/layout/tensor_names.h"

namespace qkv::model {
namespace {

using nn::AttentionKind;

constexpr const char *kKindKey = "qkv_attention", *kCrossKindKey = "qkv_cross_attention",
                     *kRankKey = "qkv_attention_rank", *kNormPlaceKey = "qkv_norm_place";

// "qkv_marian": with settings that Marian's own layout cannot express, see hf_marian.h.
constexpr std::string_view kMarian = "marian", kOwnMarian = "qkv_marian";
constexpr std::string_view kModelTypes[] = {kMarian, kOwnMarian};

constexpr NameRow kEncoderRows[] = {
    {"token_embed", "@shared|@encoder.embed_tokens"},
    {"blocks.{}.attn.qkv",
     "@encoder.layers.{}.self_attn.q_proj+@encoder.layers.{}.self_attn.k_proj+@encoder.layers.{}.self_attn.v_proj"},
    {"blocks.{}.attn.proj", "@encoder.layers.{}.self_attn.out_proj"},
    {"blocks.{}.norm1", "@encoder.layers.{}.self_attn_layer_norm"},
    {"blocks.{}.mlp.fc1", "@encoder.layers.{}.fc1"},
    {"blocks.{}.mlp.fc2", "@encoder.layers.{}.fc2"},
    {"blocks.{}.norm2", "@encoder.layers.{}.final_layer_norm"},
    // Other kinds of attention, and the norm after blocks with norms before their layers.
    {"blocks.{}.attn.v", "@encoder.layers.{}.self_attn.v"},
    {"blocks.{}.attn.qk", "@encoder.layers.{}.self_attn.qk"},
    {"blocks.{}.attn.qk.query", "@encoder.layers.{}.self_attn.qk.query"},
    {"blocks.{}.attn.qk.key", "@encoder.layers.{}.self_attn.qk.key"},
    {"blocks.{}.attn.qk.merged", "@encoder.layers.{}.self_attn.qk.merged"},
    {"blocks.{}.attn.qk.key_term", "@encoder.layers.{}.self_attn.qk.key_term"},
    {"blocks.{}.attn.qk.eigenvalues", "@encoder.layers.{}.self_attn.qk.eigenvalues"},
    {"blocks.{}.attn.qk.bandwidth", "@encoder.layers.{}.self_attn.qk.bandwidth"},
    {"blocks.{}.attn.lambda_q1", "@encoder.layers.{}.self_attn.lambda_q1"},
    {"blocks.{}.attn.lambda_k1", "@encoder.layers.{}.self_attn.lambda_k1"},
    {"blocks.{}.attn.lambda_q2", "@encoder.layers.{}.self_attn.lambda_q2"},
    {"blocks.{}.attn.lambda_k2", "@encoder.layers.{}.self_attn.lambda_k2"},
    {"blocks.{}.attn.sub_norm", "@encoder.layers.{}.self_attn.sub_norm"},
    {"norm", "@encoder.layer_norm"},
};
constexpr NameRow kDecoderRows[] = {
    {"token_embed", "@shared|@decoder.embed_tokens"},
    {"blocks.{}.attn.qkv",
     "@decoder.layers.{}.self_attn.q_proj+@decoder.layers.{}.self_attn.k_proj+@decoder.layers.{}.self_attn.v_proj"},
    {"blocks.{}.attn.proj", "@decoder.layers.{}.self_attn.out_proj"},
    {"blocks.{}.norm1", "@decoder.layers.{}.self_attn_layer_norm"},
    {"blocks.{}.cross_attn.q", "@decoder.layers.{}.encoder_attn.q_proj"},
    {"blocks.{}.cross_attn.kv", "@decoder.layers.{}.encoder_attn.k_proj+@decoder.layers.{}.encoder_attn.v_proj"},
    {"blocks.{}.cross_attn.proj", "@decoder.layers.{}.encoder_attn.out_proj"},
    {"blocks.{}.norm_cross", "@decoder.layers.{}.encoder_attn_layer_norm"},
    {"blocks.{}.mlp.fc1", "@decoder.layers.{}.fc1"},
    {"blocks.{}.mlp.fc2", "@decoder.layers.{}.fc2"},
    {"blocks.{}.norm2", "@decoder.layers.{}.final_layer_norm"},
    {"blocks.{}.attn.v", "@decoder.layers.{}.self_attn.v"},
    {"blocks.{}.attn.qk", "@decoder.layers.{}.self_attn.qk"},
    {"blocks.{}.attn.qk.query", "@decoder.layers.{}.self_attn.qk.query"},
    {"blocks.{}.attn.qk.key", "@decoder.layers.{}.self_attn.qk.key"},
    {"blocks.{}.attn.qk.merged", "@decoder.layers.{}.self_attn.qk.merged"},
    {"blocks.{}.attn.qk.key_term", "@decoder.layers.{}.self_attn.qk.key_term"},
    {"blocks.{}.attn.qk.eigenvalues", "@decoder.layers.{}.self_attn.qk.eigenvalues"},
    {"blocks.{}.attn.qk.bandwidth", "@decoder.layers.{}.self_attn.qk.bandwidth"},
    {"blocks.{}.attn.lambda_q1", "@decoder.layers.{}.self_attn.lambda_q1"},
    {"blocks.{}.attn.lambda_k1", "@decoder.layers.{}.self_attn.lambda_k1"},
    {"blocks.{}.attn.lambda_q2", "@decoder.layers.{}.self_attn.lambda_q2"},
    {"blocks.{}.attn.lambda_k2", "@decoder.layers.{}.self_attn.lambda_k2"},
    {"blocks.{}.attn.sub_norm", "@decoder.layers.{}.self_attn.sub_norm"},
    {"norm", "@decoder.layer_norm"},
    {"blocks.{}.cross_attn.v", "@decoder.layers.{}.encoder_attn.v"},
    {"blocks.{}.cross_attn.qk", "@decoder.layers.{}.encoder_attn.qk"},
    {"blocks.{}.cross_attn.qk.query", "@decoder.layers.{}.encoder_attn.qk.query"},
    {"blocks.{}.cross_attn.qk.key", "@decoder.layers.{}.encoder_attn.qk.key"},
    {"blocks.{}.cross_attn.qk.merged", "@decoder.layers.{}.encoder_attn.qk.merged"},
    {"blocks.{}.cross_attn.qk.key_term", "@decoder.layers.{}.encoder_attn.qk.key_term"},
    {"blocks.{}.cross_attn.qk.eigenvalues", "@decoder.layers.{}.encoder_attn.qk.eigenvalues"},
    {"blocks.{}.cross_attn.lambda_q1", "@decoder.layers.{}.encoder_attn.lambda_q1"},
    {"blocks.{}.cross_attn.lambda_k1", "@decoder.layers.{}.encoder_attn.lambda_k1"},
    {"blocks.{}.cross_attn.lambda_q2", "@decoder.layers.{}.encoder_attn.lambda_q2"},
    {"blocks.{}.cross_attn.lambda_k2", "@decoder.layers.{}.encoder_attn.lambda_k2"},
    {"blocks.{}.cross_attn.sub_norm", "@decoder.layers.{}.encoder_attn.sub_norm"},
    {"head.bias", "final_logits_bias"},
};
// Computed positions, copies of the shared table, and the head, which is the same table: RequireNoOtherValues.
constexpr std::string_view kIgnored[] = {"@encoder.embed_positions.weight", "@decoder.embed_positions.weight",
                                         "@encoder.embed_tokens.weight", "@decoder.embed_tokens.weight",
                                         "lm_head.weight"};
constexpr std::string_view kAnchors[] = {"shared.weight", "encoder.embed_tokens.weight"};
constexpr std::span<const NameRow> kEncoderTables[] = {kEncoderRows}, kDecoderTables[] = {kDecoderRows};
constexpr Layout kEncoderLayout = {kEncoderTables, kIgnored, {}}, kDecoderLayout = {kDecoderTables, kIgnored, {}};

AttentionKind ReadKind(const io::Fields& config, const char* key) {
  const std::string name = config.String(key, "separate");
  const std::optional<AttentionKind> kind = FindAttentionKind(name);
  Require(kind.has_value(), "{}: \"{}\" is {}, expected {}", config.where(), key, io::Quoted(name),
          kAttentionKindNames);
  return *kind;
}

bool HasRank(AttentionKind kind) {
  return kind == AttentionKind::kLowRank || kind == AttentionKind::kSymmetric || kind == AttentionKind::kPositional;
}

// Keys that only qkv's variant of the layout has.
void ReadOwnKeys(const io::Fields& config, SequenceConfig* c) {
  nn::AttentionConfig& a = c->block.attention;
  a.kind = ReadKind(config, kKindKey);
  if (HasRank(a.kind)) a.qk_width = config.Int(kRankKey, 0);
  const std::string place = config.String(kNormPlaceKey, "after");
  const std::optional<nn::NormPlace> found = FindNormPlace(place);
  Require(found.has_value(), "{}: \"{}\" is {}, expected before or after", config.where(), kNormPlaceKey,
          io::Quoted(place));
  c->block.norm_place = *found;
  c->final_norm = *found == nn::NormPlace::kBefore;
}

// Many are of the first release, which had one class with BART; the present one has no such switches.
constexpr io::KnownKey kKnown[] = {
    {"is_encoder_decoder"},         {"init_std"},         {"encoder_layerdrop"},   {"decoder_layerdrop"},
    {"num_hidden_layers"},          {"classif_dropout"},  {"add_bias_logits"},     {"add_final_layer_norm"},
    {"extra_pos_embeddings"},       {"normalize_before"}, {"normalize_embedding"}, {"static_position_embeddings"},
    {"do_blenderbot_90_layernorm"},
};

// side: "encoder" or "decoder".
SequenceConfig ReadPart(const io::Fields& config, const std::string& side) {
  SequenceConfig c;
  c.vocabulary = config.Int("vocab_size", 58101);
  c.outputs = 0;
  c.head_bias = false;
  c.length = config.Int("max_position_embeddings", 1024);
  ReadHfHeads(config, "d_model", 1024, side + "_attention_heads", 16, &c.block);
  c.depth = config.Int(side + "_layers", 12);
  c.block.mlp.width = config.Int(side + "_ffn_dim", 4096);
  c.block.mlp.activation = HfActivation(config.String("activation_function", "gelu"));
  c.block.norm.eps = 1e-5;
  c.block.norm_place = nn::NormPlace::kAfter;
  c.positions = SequencePositions::kSinusoidalHalves;
  c.final_norm = false;
  if (config.String("model_type", "") == kOwnMarian) ReadOwnKeys(config, &c);
  if (config.Bool("scale_embedding", false)) c.embedding_scale = std::sqrt(static_cast<double>(c.block.width));
  return c;
}

// transformers computes the positions too, and reads those of a file.
void RequireComputedPositions(const SequenceConfig& c, const io::StoredTensor& stored) {
  const bool fits = stored.shape.rank() == 2 && stored.shape[0] <= c.length && stored.shape[1] == c.block.width;
  Require(fits, "{}: expected [{}, {}], as the configuration says, got {}", stored.name, c.length, c.block.width,
          stored.shape);
  const Tensor<float> values = io::Convert<float>(stored);
  Tensor<float> computed(stored.shape);
  SinCosSequence<float>(computed, SequencePositions::kSinusoidalHalves);
  // Sines and cosines, rounded to the type of the file.
  const float rounding = stored.dtype == DType::kF32 || stored.dtype == DType::kF64 ? 1e-6F : 0x1p-8F;
  for (int64_t i = 0; i < values.size(); ++i) {
    Require(std::abs(values.data()[i] - computed.data()[i]) <= rounding,
            "{} has other values than the computed positions of Marian's models (at element {}: {}, not {}): a model "
            "that learned positions is not supported",
            stored.name, i, values.data()[i], computed.data()[i]);
  }
}

void RequireNoOtherValues(const SequenceConfig& c, const io::TensorSet& tensors) {
  const bool shares = FindWithSuffix(tensors, "shared.weight") != nullptr;
  RequireHfCopies(
      tensors, shares ? "shared.weight" : "decoder.embed_tokens.weight",
      std::array<std::string_view, 3>{"encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight"});
  for (const std::string_view name : {"encoder.embed_positions.weight", "decoder.embed_positions.weight"}) {
    const io::StoredTensor* const stored = FindWithSuffix(tensors, name);
    if (stored != nullptr) RequireComputedPositions(c, *stored);
  }
}

TextDescription DescribeHfMarian(const io::Fields& config, const io::TensorSet& tensors) {
  TextDescription description;
  description.model_type = config.String("model_type", std::string(kMarian));
  description.architecture = HfArchitecture(config, "MarianMTModel");
  Require(config.Bool("share_encoder_decoder_embeddings", true) && config.Bool("tie_word_embeddings", true) &&
              config.Int("decoder_vocab_size", config.Int("vocab_size", 58101)) == config.Int("vocab_size", 58101),
          "{}: a Marian model with two vocabularies is not supported", config.where());
  description.encoder = ReadPart(config, "encoder");
  SequenceConfig c = ReadPart(config, "decoder");
  c.causal = true;
  c.block.cross = c.block.attention;
  c.block.cross->of_source = true;
  if (description.model_type == kOwnMarian) {
    c.block.cross->kind = ReadKind(config, kCrossKindKey);
    c.block.cross->qk_width = HasRank(c.block.cross->kind) ? config.Int(kRankKey, 0) : 0;
  }
  c.outputs = c.vocabulary;
  c.tied_head = true;
  c.head_bias = tensors.Find("final_logits_bias") != nullptr;
  RequireNoOtherValues(c, tensors);
  description.decoder = c;
  return description;
}

}  // namespace

constinit const TextFamilyRow kHfMarian = {
    .model_types = kModelTypes,
    .describe = DescribeHfMarian,
    .encoder = [](const SequenceConfig&) -> const Layout& { return kEncoderLayout; },
    .decoder = [](const SequenceConfig&) -> const Layout& { return kDecoderLayout; },
    .known = kKnown,
    .anchors = kAnchors,
    .base = "model."};

std::string HfMarianObstruction(const SequenceConfig& encoder, const SequenceConfig& decoder) {
  for (const SequenceConfig* part : {&encoder, &decoder}) {
    const AttentionKind kind = part->block.attention.kind;
    if (kind != AttentionKind::kSeparate) return fmt::format("it has no {} attention", Name(kind));
    if (part->block.norm_place == nn::NormPlace::kBefore) return "its norms are after the layers";
  }
  const AttentionKind cross = decoder.block.cross->kind;
  return cross == AttentionKind::kSeparate ? "" : fmt::format("it has no {} cross-attention", Name(cross));
}

io::Json HfMarianConfig(const SequenceConfig& encoder, const SequenceConfig& decoder, const TextTokens& tokens) {
  const SequenceConfig &e = encoder, &d = decoder;
  const nn::AttentionConfig &a = e.block.attention, &self = d.block.attention, &cross = *d.block.cross;
  const auto has_widths = [](const SequenceConfig& c) {
    const nn::AttentionConfig& of = c.block.attention;
    return of.joined_width() == c.block.width && !of.groups_heads() && !of.has_window() && of.bias && !of.qk_norm &&
           c.block.mlp.gate == simd::Gate::kNone && c.block.norm.kind == simd::NormKind::kLayer &&
           c.positions == SequencePositions::kSinusoidalHalves && c.block.norm.eps == 1e-5 &&
           c.final_norm == (c.block.norm_place == nn::NormPlace::kBefore);
  };
  Require(has_widths(e) && has_widths(d) && cross.heads == self.heads && cross.head_width == self.head_width &&
              e.length == d.length && a.kind == self.kind && a.qk_width == self.qk_width &&
              e.block.norm_place == d.block.norm_place && e.block.mlp.activation == d.block.mlp.activation &&
              e.embedding_scale == d.embedding_scale &&
              (cross.qk_width == 0 || cross.qk_width == a.qk_width || a.qk_width == 0),
          "config: Marian's layout has sinusoidal positions, LayerNorm with eps 1e-5, biases, plain MLPs and heads as "
          "wide as the model together, with equal norms, activations and kinds of attention in both parts");
  const double scale = std::sqrt(static_cast<double>(e.block.width));
  Require(e.embedding_scale == 1 || std::abs(e.embedding_scale - scale) < 1e-9 * scale,
          "config: Marian's layout scales embeddings by {} or not, got {}", scale, e.embedding_scale);
  const std::string obstruction = HfMarianObstruction(e, d);
  io::Json json = {{"model_type", obstruction.empty() ? kMarian : kOwnMarian},
                   {"architectures", {"MarianMTModel"}},
                   {"vocab_size", e.vocabulary},
                   {"decoder_vocab_size", d.vocabulary},
                   {"d_model", e.block.width},
                   {"encoder_layers", e.depth},
                   {"decoder_layers", d.depth},
                   {"encoder_attention_heads", a.heads},
                   {"decoder_attention_heads", self.heads},
                   {"encoder_ffn_dim", e.block.mlp.width},
                   {"decoder_ffn_dim", d.block.mlp.width},
                   {"max_position_embeddings", e.length},
                   {"activation_function", HfName(e.block.mlp.activation)},
                   {"scale_embedding", e.embedding_scale != 1},
                   {"share_encoder_decoder_embeddings", true},
                   {"tie_word_embeddings", true},
                   {"is_encoder_decoder", true},
                   {"static_position_embeddings", true},
                   {"dtype", "float32"},
                   {"decoder_start_token_id", tokens.start},
                   {"eos_token_id", tokens.end},
                   {"forced_eos_token_id", tokens.end},
                   {"pad_token_id", tokens.padding},
                   {"bos_token_id", nullptr}};
  if (obstruction.empty()) return json;
  json[kKindKey] = Name(a.kind);
  json[kCrossKindKey] = Name(cross.kind);
  if (const int64_t rank = std::max(a.qk_width, cross.qk_width); rank > 0) json[kRankKey] = rank;
  json[kNormPlaceKey] = Name(e.block.norm_place);
  return json;
}

io::Json HfMarianGeneration(const SequenceConfig& decoder, const TextTokens& tokens) {
  return {{"decoder_start_token_id", tokens.start},
          {"eos_token_id", tokens.end},
          {"forced_eos_token_id", tokens.end},
          {"pad_token_id", tokens.padding},
          {"bad_words_ids", {{tokens.padding}}},
          {"max_length", decoder.length},
          {"num_beams", 4}};
}

std::vector<std::string> HfMarianNames(bool decoder, std::string_view canonical) {
  return StoredNames(decoder ? kDecoderLayout : kEncoderLayout, "model.", canonical);
}

}  // namespace qkv::model
