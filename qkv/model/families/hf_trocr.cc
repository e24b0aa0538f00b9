// Hugging Face transformers: the decoder of TrOCR (Li et al. 2021), which reads lines of text in images. It is BART's,
// with learned or computed positions, and stands beside an image encoder (hf_caption.cc).
#include <cmath>

#include "qkv/core/error.h"
#include "qkv/model/families/hf_common.h"
#include "qkv/model/families/text_family.h"
#include "qkv/model/layout/tensor_names.h"

namespace qkv::model {
namespace {

constexpr std::string_view kModelTypes[] = {"trocr"};

constexpr NameRow kRows[] = {
    {"token_embed", "@embed_tokens"},
    {"pos_embed", "@embed_positions.weight"},
    {"norm_pre", "@layernorm_embedding"},
    {"blocks.{}.attn.qkv", "@layers.{}.self_attn.q_proj+@layers.{}.self_attn.k_proj+@layers.{}.self_attn.v_proj"},
    {"blocks.{}.attn.proj", "@layers.{}.self_attn.out_proj"},
    {"blocks.{}.norm1", "@layers.{}.self_attn_layer_norm"},
    {"blocks.{}.cross_attn.q", "@layers.{}.encoder_attn.q_proj"},
    {"blocks.{}.cross_attn.kv", "@layers.{}.encoder_attn.k_proj+@layers.{}.encoder_attn.v_proj"},
    {"blocks.{}.cross_attn.proj", "@layers.{}.encoder_attn.out_proj"},
    {"blocks.{}.norm_cross", "@layers.{}.encoder_attn_layer_norm"},
    {"blocks.{}.mlp.fc1", "@layers.{}.fc1"},
    {"blocks.{}.mlp.fc2", "@layers.{}.fc2"},
    {"blocks.{}.norm2", "@layers.{}.final_layer_norm"},
    {"head", "output_projection|decoder.output_projection"},
};
// Computed positions, which older versions stored; and the head, where it is the tokens' table.
constexpr std::string_view kIgnored[] = {"@embed_positions._float_tensor", "@embed_positions.weights",
                                         "output_projection.weight", "decoder.output_projection.weight"};
constexpr std::string_view kAnchors[] = {"embed_tokens.weight"};
constexpr std::span<const NameRow> kTables[] = {kRows};
constexpr Layout kLayout = {kTables, kIgnored, {}};

constexpr int64_t kLearnedOffset = 2;  // rows of the learned table before the first position, as in BART

// In transformers a padding token has no computed position. Here it has one like all others: no text holds it.
void ReadPositions(const io::Fields& config, SequenceConfig* c) {
  c->length = config.Int("max_position_embeddings", 512);
  if (config.Bool("use_learned_position_embeddings", true)) {
    c->positions = SequencePositions::kLearned;
    c->position_offset = kLearnedOffset;
  } else {
    c->positions = SequencePositions::kSinusoidalFairseq;
    c->position_offset = config.Int("pad_token_id", 1) + 1;
  }
}

constexpr io::KnownKey kKnown[] = {
    {"is_decoder"},  // always one
    {"is_encoder_decoder"}, {"add_cross_attention"}, {"init_std"}, {"decoder_layerdrop"}, {"encoder_layerdrop"},
};

TextDescription DescribeHfTrocr(const io::Fields& config, const io::TensorSet& tensors) {
  TextDescription description;
  description.architecture = HfArchitecture(config, "TrOCRForCausalLM");
  description.model_type = "trocr";
  SequenceConfig c;
  c.vocabulary = c.outputs = config.Int("vocab_size", 50265);
  ReadHfHeads(config, "d_model", 1024, "decoder_attention_heads", 16, &c.block);
  c.depth = config.Int("decoder_layers", 12);
  c.block.mlp.width = config.Int("decoder_ffn_dim", 4096);
  c.block.mlp.activation = HfActivation(config.String("activation_function", "gelu"));
  c.block.norm.eps = 1e-5;
  c.block.norm_place = nn::NormPlace::kAfter;
  c.block.cross = c.block.attention;
  c.block.cross->of_source = true;
  c.block.cross->source_width = config.Int("cross_attention_hidden_size", 0);
  ReadPositions(config, &c);
  if (config.Bool("scale_embedding", false)) c.embedding_scale = std::sqrt(static_cast<double>(c.block.width));
  c.embedding_norm = config.Bool("layernorm_embedding", true);
  c.causal = true;
  c.final_norm = c.head_bias = false;
  c.tied_head =
      HfTiesHead(config, tensors, "embed_tokens.weight", "output_projection.weight", &description.assumptions);
  description.decoder = c;
  return description;
}

}  // namespace

constinit const TextFamilyRow kHfTrocr = {.model_types = kModelTypes,
                                          .describe = DescribeHfTrocr,
                                          .decoder = [](const SequenceConfig&) -> const Layout& { return kLayout; },
                                          .known = kKnown,
                                          .anchors = kAnchors};

}  // namespace qkv::model
