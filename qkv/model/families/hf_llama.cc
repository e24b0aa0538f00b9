// Hugging Face transformers: decoders with RMSNorm, rotary positions and gated MLPs: Llama (Touvron et al. 2023),
// SmolLM and Mistral, whose files are Llama's, Qwen2, and Qwen3 with norms of queries and keys.
#include <algorithm>

#include "qkv/core/error.h"
#include "qkv/model/families/hf_common.h"
#include "qkv/model/families/text_family.h"
#include "qkv/model/layout/tensor_names.h"

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
constexpr std::string_view kAnchors[] = {"embed_tokens.weight", "layers.0.input_layernorm.weight"};
constexpr std::span<const NameRow> kTables[] = {kRows};
constexpr Layout kLayout = {kTables, kIgnored, {}};

constexpr io::KnownKey kKnown[] = {
    {"max_window_layers"},  // where no layer has a window, or "layer_types" says which
    {"sliding_window"},
    {"use_sliding_window"},
    {"layer_types"},
    {"rope_parameters"},
    {"partial_rotary_factor", "1"},
    {"type"},  // of scaling, beside "rope_type"
    {"factor"},
    {"low_freq_factor"},
    {"high_freq_factor"},
    {"original_max_position_embeddings"},
    {"attention_factor"},
    {"attention_bias"},
    {"rope_interleaved", "false"},
    {"rms_norm_unit_offset", "false"},
    {"model_max_length"},
};

// Base and scaling of the rotary positions: "rope_scaling", or "rope_parameters", and "rope_theta" in it or beside it.
void ReadRotary(const io::Fields& config, SequenceConfig* c) {
  const bool older = config.Has("rope_scaling") && !config.Value("rope_scaling").empty();
  const io::Fields rope = config.Object(older ? "rope_scaling" : "rope_parameters");
  c->positions = SequencePositions::kRotary;
  c->rotary_halves = true;
  const bool is_inner = rope.json().contains("rope_theta");
  const io::Json& base = (is_inner ? rope : config).Value("rope_theta");
  Require(!base.is_null() || !(is_inner ? rope : config).json().contains("rope_theta"),
          "{}: \"rope_theta\" is null, expected a number", (is_inner ? rope : config).where());
  c->rotary_base = rope.Number("rope_theta", config.Number("rope_theta", nn::kUsualRotaryBase));
  const std::string type = rope.String("rope_type", rope.String("type", "default"));
  if (type == "default") return;
  Require(type == "linear" || type == "llama3",
          "{}: rotary positions are of type {}, and qkv knows default, linear and llama3", config.where(),
          io::Quoted(type));
  c->rotary_scaling.factor = rope.Number("factor", 1);
  if (type == "linear") return;
  c->rotary_scaling.low = rope.Number("low_freq_factor", 1);
  c->rotary_scaling.high = rope.Number("high_freq_factor", 4);
  c->rotary_scaling.trained =
      config.Int("original_max_position_embeddings", rope.Int("original_max_position_embeddings", c->length));
  Require(c->rotary_scaling.trained > 0, "{}: \"original_max_position_embeddings\" is not positive", config.where());
}

constexpr std::string_view kFull = "full_attention", kSliding = "sliding_attention";
// Defaults of the library's classes.
constexpr int64_t kUsualWindow = 4096, kUsualFirstWindow = 28;

// The library refuses other words, and has layers of one kind in models without windows whatever they say.
constexpr std::string_view kLayerTypes[] = {kFull,
                                            kSliding,
                                            "chunked_attention",
                                            "window_attention",
                                            "indexed_attention",
                                            "compressed_sparse_attention",
                                            "heavily_compressed_attention",
                                            "minimax_m3_sparse",
                                            "conv",
                                            "moe",
                                            "hybrid",
                                            "hybrid_sliding",
                                            "reference_sliding_attention",
                                            "linear_attention",
                                            "sparse",
                                            "dense",
                                            "mamba",
                                            "attention",
                                            "deepseek_sparse_attention",
                                            "qwen_sparse_attention"};

void CheckLayerTypes(const io::Fields& config, int64_t depth) {
  const io::Json& types = config.Value("layer_types");
  if (types.is_null()) return;
  Require(types.is_array() && std::ssize(types) == depth,
          "{}: \"layer_types\" is {}, expected one of each of {} layers", config.where(), types.type_name(), depth);
  for (const io::Json& type : types) {
    Require(type.is_string() && std::ranges::find(kLayerTypes, type.get<std::string>()) != std::end(kLayerTypes),
            "{}: \"layer_types\" has {}, expected {} or {}", config.where(), io::Quoted(type.dump()), kFull, kSliding);
  }
}

// How many of Qwen's layers have a window: the last ones, unless "layer_types" says which.
int64_t CountWindows(const io::Fields& config, int64_t depth) {
  const io::Json& types = config.Value("layer_types");
  if (types.is_null()) return depth - std::min(depth, config.Int("max_window_layers", kUsualFirstWindow));
  for (const io::Json& type : types) {
    Require(type == kFull || type == kSliding, "{}: \"layer_types\" has {}, expected {} or {}", config.where(),
            io::Quoted(type.dump()), kFull, kSliding);
  }
  return std::ranges::count(types, io::Json(kSliding));
}

// Keys seen by a query: Mistral's window, and that of Qwen's layers where it is switched on.
void ReadWindow(const io::Fields& config, const std::string& type, SequenceConfig* c) {
  const bool mistral = type == "mistral";
  if (type == "llama") return;
  if (!mistral && !config.Bool("use_sliding_window", false)) return;
  if (!config.Has("sliding_window") && config.json().contains("sliding_window")) return;  // null: none
  const int64_t window = config.Int("sliding_window", kUsualWindow), layers = c->depth;
  Require(window > 0, "{}: \"sliding_window\" is {}, expected a positive number", config.where(), window);
  const int64_t windows = mistral ? layers : CountWindows(config, layers);
  if (windows == 0 || window >= c->length) return;
  Require(windows == layers,
          "{}: {} of {} layers have a window (\"{}\"); windows of some layers only are not supported", config.where(),
          windows, layers, config.Has("layer_types") ? "layer_types" : "max_window_layers");
  c->block.attention.window_left = window - 1;
}

TextDescription DescribeHfLlama(const io::Fields& config, const io::TensorSet& tensors) {
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
  CheckLayerTypes(config, c.depth);
  ReadWindow(config, type, &c);
  description.decoder = c;
  return description;
}

}  // namespace

constinit const TextFamilyRow kHfLlama = {.model_types = kModelTypes,
                                          .describe = DescribeHfLlama,
                                          .decoder = [](const SequenceConfig&) -> const Layout& { return kLayout; },
                                          .known = kKnown,
                                          .anchors = kAnchors,
                                          .base = "model."};

}  // namespace qkv::model
