// Hugging Face transformers: GPT-2 (Radford et al. 2019), whose linear layers are stored transposed.
#include "qkv/model/families/hf_gpt2.h"

#include "qkv/core/error.h"
#include "qkv/model/families/hf_common.h"
#include "qkv/model/families/text_family.h"

namespace qkv::model {
namespace {

constexpr std::string_view kModelTypes[] = {"gpt2"};

constexpr NameRow kRows[] = {
    {"token_embed", "@wte"},
    {"pos_embed", "@wpe.weight"},
    {"blocks.{}.norm1", "@h.{}.ln_1"},
    {"blocks.{}.attn.qkv", "^@h.{}.attn.c_attn"},
    {"blocks.{}.attn.proj", "^@h.{}.attn.c_proj"},
    {"blocks.{}.norm_cross", "@h.{}.ln_cross_attn"},
    {"blocks.{}.cross_attn.q", "^@h.{}.crossattention.q_attn"},
    {"blocks.{}.cross_attn.kv", "^@h.{}.crossattention.c_attn"},
    {"blocks.{}.cross_attn.proj", "^@h.{}.crossattention.c_proj"},
    {"blocks.{}.norm2", "@h.{}.ln_2"},
    {"blocks.{}.mlp.fc1", "^@h.{}.mlp.c_fc"},
    {"blocks.{}.mlp.fc2", "^@h.{}.mlp.c_proj"},
    {"norm", "@ln_f"},
    {"head", "lm_head|decoder.lm_head"},
};
// Causal masks, which older versions stored; and the head, where it is the tokens' table.
constexpr std::string_view kIgnored[] = {"*.attn.bias",           "*.attn.masked_bias",
                                         "*.crossattention.bias", "*.crossattention.masked_bias",
                                         "lm_head.weight",        "decoder.lm_head.weight"};
constexpr std::string_view kAnchors[] = {"wte.weight"};
constexpr std::span<const NameRow> kTables[] = {kRows};
constexpr Layout kLayout = {kTables, kIgnored, {}};

constexpr io::KnownKey kKnown[] = {
    {"n_ctx"},
    {"embd_pdrop"},
    {"resid_pdrop"},
    {"attn_pdrop"},
    {"summary_activation"},  // of a head for choices
    {"summary_first_dropout"},
    {"summary_proj_to_labels"},
    {"summary_type"},
    {"summary_use_proj"},
    {"predict_special_tokens"},
    {"reorder_and_upcast_attn"},  // of half precision
    {"afn"},
};

TextDescription DescribeHfGpt2(const io::Fields& config, const io::TensorSet& tensors) {
  TextDescription description;
  description.architecture = HfArchitecture(config, "GPT2LMHeadModel");
  description.model_type = "gpt2";
  description.decoder = ReadHfGpt2(config);
  description.decoder->tied_head =
      HfTiesHead(config, tensors, "wte.weight", "lm_head.weight", &description.assumptions);
  return description;
}

}  // namespace

SequenceConfig ReadHfGpt2(const io::Fields& config) {
  SequenceConfig c;
  c.vocabulary = c.outputs = config.Int("vocab_size", 50257);
  c.length = config.Int("n_positions", 1024);
  ReadHfHeads(config, "n_embd", 768, "n_head", 12, &c.block);
  c.depth = config.Int("n_layer", 12);
  c.block.mlp.width = config.Int("n_inner", 4 * c.block.width);
  c.block.mlp.activation = HfActivation(config.String("activation_function", "gelu_new"));
  c.block.norm.eps = config.Number("layer_norm_epsilon", 1e-5);
  c.positions = SequencePositions::kLearned;
  c.causal = true;
  c.head_bias = false;
  c.tied_head = config.Bool("tie_word_embeddings", true);
  for (const auto& [key, usual] :
       {std::pair("scale_attn_weights", true), std::pair("scale_attn_by_inverse_layer_idx", false)}) {
    Require(config.Bool(key, usual) == usual, "{}: \"{}\" is {}, and qkv knows {} only", config.where(), key, !usual,
            usual);
  }
  if (config.Bool("add_cross_attention", false)) {
    c.block.cross = c.block.attention;
    c.block.cross->of_source = true;
  }
  return c;
}

const Layout& HfGpt2Layout() { return kLayout; }

constinit const TextFamilyRow kHfGpt2 = {.model_types = kModelTypes,
                                         .describe = DescribeHfGpt2,
                                         .decoder = [](const SequenceConfig&) -> const Layout& { return kLayout; },
                                         .known = kKnown,
                                         .anchors = kAnchors};

}  // namespace qkv::model
