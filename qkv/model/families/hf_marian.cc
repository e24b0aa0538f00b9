// Hugging Face transformers: Marian (Junczys-Dowmunt et al. 2018), pairs of encoder and decoder that translate, as the
// OPUS-MT models; `qkv train` writes this layout for pairs of texts.
#include <cmath>

#include "qkv/core/error.h"
#include "qkv/model/families/hf_common.h"
#include "qkv/model/families/text_family.h"

namespace qkv::model {
namespace {

constexpr std::string_view kModelTypes[] = {"marian"};

constexpr NameRow kEncoderRows[] = {
    {"token_embed", "@shared|@encoder.embed_tokens"},
    {"blocks.{}.attn.qkv",
     "@encoder.layers.{}.self_attn.q_proj+@encoder.layers.{}.self_attn.k_proj+@encoder.layers.{}.self_attn.v_proj"},
    {"blocks.{}.attn.proj", "@encoder.layers.{}.self_attn.out_proj"},
    {"blocks.{}.norm1", "@encoder.layers.{}.self_attn_layer_norm"},
    {"blocks.{}.mlp.fc1", "@encoder.layers.{}.fc1"},
    {"blocks.{}.mlp.fc2", "@encoder.layers.{}.fc2"},
    {"blocks.{}.norm2", "@encoder.layers.{}.final_layer_norm"},
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
    {"head.bias", "final_logits_bias"},
};
// Computed positions, copies of the shared table, and the head, which is the same table.
constexpr std::string_view kIgnored[] = {"@encoder.embed_positions.weight", "@decoder.embed_positions.weight",
                                         "@encoder.embed_tokens.weight", "@decoder.embed_tokens.weight",
                                         "lm_head.weight"};
constexpr std::string_view kAnchors[] = {"shared.weight", "encoder.embed_tokens.weight"};
constexpr std::span<const NameRow> kEncoderTables[] = {kEncoderRows}, kDecoderTables[] = {kDecoderRows};
constexpr Layout kEncoderLayout = {kEncoderTables, kIgnored, {}}, kDecoderLayout = {kDecoderTables, kIgnored, {}};

// side: "encoder" or "decoder".
SequenceConfig ReadPart(const Fields& config, const std::string& side) {
  SequenceConfig c;
  c.vocabulary = config.Int("vocab_size", 58101);
  c.outputs = 0;
  c.length = config.Int("max_position_embeddings", 1024);
  ReadHfHeads(config, "d_model", 1024, side + "_attention_heads", 16, &c.block);
  c.depth = config.Int(side + "_layers", 12);
  c.block.mlp.width = config.Int(side + "_ffn_dim", 4096);
  c.block.mlp.activation = HfActivation(config.String("activation_function", "gelu"));
  c.block.norm.eps = 1e-5;
  c.block.norm_place = nn::NormPlace::kAfter;
  c.positions = SequencePositions::kSinusoidalHalves;
  c.final_norm = false;
  if (config.Bool("scale_embedding", false)) c.embedding_scale = std::sqrt(static_cast<double>(c.block.width));
  return c;
}

TextDescription DescribeHfMarian(const Fields& config, const io::TensorSet& tensors) {
  TextDescription description;
  description.model_type = "marian";
  description.architecture = HfArchitecture(config, "MarianMTModel");
  Require(config.Bool("share_encoder_decoder_embeddings", true) && config.Bool("tie_word_embeddings", true) &&
              config.Int("decoder_vocab_size", config.Int("vocab_size", 58101)) == config.Int("vocab_size", 58101),
          "{}: a Marian model with two vocabularies is not supported", config.where());
  description.encoder = ReadPart(config, "encoder");
  SequenceConfig c = ReadPart(config, "decoder");
  c.causal = true;
  c.block.cross = c.block.attention;
  c.block.cross->of_source = true;
  c.outputs = c.vocabulary;
  c.tied_head = true;
  c.head_bias = tensors.Find("final_logits_bias") != nullptr;
  description.decoder = c;
  return description;
}

}  // namespace

constinit const TextFamilyRow kHfMarian = {
    .model_types = kModelTypes,
    .describe = DescribeHfMarian,
    .encoder = [](const SequenceConfig&) -> const Layout& { return kEncoderLayout; },
    .decoder = [](const SequenceConfig&) -> const Layout& { return kDecoderLayout; },
    .anchors = kAnchors};

}  // namespace qkv::model
