// Hugging Face transformers: decoders with RMSNorm, rotary positions and gated MLPs: Llama (Touvron et al. 2023),
// SmolLM and Mistral, whose files are Llama's, Qwen2, and Qwen3 with norms of queries and keys.
#include <algorithm>

#include "qkv/core/error.h"
#include "qkv/model/families/hf_common.h"
#include "qkv/model/families/text_family.h"

namespace qkv::model {
namespace {

constexpr std::string_view kModelTypes[] = {"llama", "mistral", "qwen2", "qwen3"};

constexpr NameRow kRows[] = {
    {"token_embed", "@embed_tokens"},
    {"blocks.{}.norm1", "@layers.{}.input_layernorm"},
    {"blocks.{}.attn.qkv", "@layers.{}.self_attn.q_proj+@layers.{}.self_attn.k_proj+@layers.{}.self_attn.v_proj"},
    {"blocks.{}.attn.q_norm", "@layers.{}.self_attn.q_norm"},
    {"blocks.{}.attn.k_norm", "@layers.{}.self_attn.k_norm"},
    {"blocks.{}.attn.proj", "@layers.{}.self_attn.o_proj"},
    {"blocks.{}.norm2", "@layers.{}.post_attention_layernorm"},
    {"blocks.{}.mlp.fc1", "@layers.{}.mlp.gate_proj+@layers.{}.mlp.up_proj"},
    {"blocks.{}.mlp.fc2", "@layers.{}.mlp.down_proj"},
    {"norm", "@norm"},
    {"head", "lm_head"},
};
// Older versions stored the frequencies; and a copy of the tokens' table as the head (HfTiesHead).
constexpr std::string_view kIgnored[] = {"*.rotary_emb.inv_freq", "lm_head.weight"};
constexpr std::string_view kAnchors[] = {"embed_tokens.weight"};
constexpr std::span<const NameRow> kTables[] = {kRows};
constexpr Layout kLayout = {kTables, kIgnored, {}};

// Base and scaling of the rotary positions: "rope_parameters", or the older "rope_theta" and "rope_scaling".
void ReadRotary(const Fields& config, SequenceConfig* c) {
  const bool newer = config.Has("rope_parameters");
  const Fields rope = config.Object(newer ? "rope_parameters" : "rope_scaling");
  c->positions = SequencePositions::kRotary;
  c->rotary_halves = true;
  c->rotary_base =
      newer ? rope.Number("rope_theta", nn::kUsualRotaryBase) : config.Number("rope_theta", nn::kUsualRotaryBase);
  const std::string type = rope.String("rope_type", rope.String("type", "default"));
  if (type == "default") return;
  Require(type == "linear" || type == "llama3",
          "{}: rotary positions are of type {}, and qkv knows default, linear and llama3", config.where(),
          io::Quoted(type));
  c->rotary_scaling.factor = rope.Number("factor", 1);
  if (type == "linear") return;
  c->rotary_scaling.low = rope.Number("low_freq_factor", 1);
  c->rotary_scaling.high = rope.Number("high_freq_factor", 4);
  c->rotary_scaling.trained = rope.Int("original_max_position_embeddings", 8192);
  Require(c->rotary_scaling.trained > 0, "{}: \"original_max_position_embeddings\" is not positive", config.where());
}

// Keys seen by a query: Mistral's window, and Qwen's if it is switched on for all layers.
void ReadWindow(const Fields& config, const std::string& type, SequenceConfig* c) {
  const bool used = type == "mistral" || config.Bool("use_sliding_window", false);
  if (!used || !config.Has("sliding_window") || type == "llama") return;
  Require(type == "mistral" || config.Int("max_window_layers", 0) == 0,
          "{}: \"max_window_layers\": windows of some layers only are not supported", config.where());
  const int64_t window = config.RequiredInt("sliding_window");
  Require(window > 0, "{}: \"sliding_window\" is {}, expected a positive number", config.where(), window);
  if (window < c->length) c->block.attention.window_left = window - 1;
}

TextDescription DescribeHfLlama(const Fields& config, const io::TensorSet& tensors) {
  TextDescription description;
  const std::string type = config.String("model_type", "llama");
  description.architecture = HfArchitecture(config, "LlamaForCausalLM");
  description.model_type = type;
  SequenceConfig c;
  c.vocabulary = c.outputs = config.Int("vocab_size", type.starts_with("qwen") ? 151936 : 32000);
  c.length = config.Int("max_position_embeddings", 2048);
  c.block.width = config.RequiredInt("hidden_size");
  c.depth = config.RequiredInt("num_hidden_layers");
  nn::AttentionConfig& a = c.block.attention;
  a.heads = config.RequiredInt("num_attention_heads");
  Require(a.heads > 0 && c.block.width > 0, "{}: expected positive \"hidden_size\" and \"num_attention_heads\"",
          config.where());
  a.head_width = config.Int("head_dim", type == "qwen3" ? 128 : c.block.width / a.heads);
  a.key_heads = config.Int("num_key_value_heads", a.heads);
  // Qwen2 has biases of queries, keys and values alone, whatever its file says.
  a.bias = type == "qwen2" || config.Bool("attention_bias", false);
  a.projection_bias = type != "qwen2" && config.Bool("attention_bias", false);
  a.qk_norm = type == "qwen3";
  c.block.mlp.width = config.RequiredInt("intermediate_size");
  c.block.mlp.gate = simd::Gate::kFirst;
  c.block.mlp.activation = HfActivation(config.String("hidden_act", "silu"));
  c.block.mlp.bias = config.Bool("mlp_bias", false);
  c.block.norm.kind = simd::NormKind::kRms;
  c.block.norm.eps = config.Number("rms_norm_eps", 1e-6);
  c.causal = true;
  c.head_bias = false;
  c.tied_head = HfTiesHead(config, tensors, "embed_tokens.weight", "lm_head.weight", &description.assumptions,
                           /*unless_given=*/false);
  ReadRotary(config, &c);
  ReadWindow(config, type, &c);
  description.decoder = c;
  return description;
}

}  // namespace

constinit const TextFamilyRow kHfLlama = {.model_types = kModelTypes,
                                          .describe = DescribeHfLlama,
                                          .decoder = [](const SequenceConfig&) -> const Layout& { return kLayout; },
                                          .anchors = kAnchors};

}  // namespace qkv::model
