// Hugging Face transformers: T5 (Raffel et al. 2020), T5 1.1 and Flan-T5, encoder-decoders with relative positions; and
// the encoder alone.
#include <array>
#include <cmath>

#include "qkv/core/error.h"
#include "qkv/model/families/hf_common.h"
#include "qkv/model/families/text_family.h"
#include "qkv/model/layout/tensor_names.h"

namespace qkv::model {
namespace {

constexpr std::string_view kModelTypes[] = {"t5"};

constexpr NameRow kEncoderRows[] = {
    {"token_embed", "shared|encoder.embed_tokens"},
    {"rel_bias", "encoder.block.0.layer.0.SelfAttention.relative_attention_bias"},
    {"blocks.{}.norm1", "encoder.block.{}.layer.0.layer_norm"},
    {"blocks.{}.attn.qkv",
     "encoder.block.{}.layer.0.SelfAttention.q+encoder.block.{}.layer.0.SelfAttention.k+encoder.block.{}.layer.0."
     "SelfAttention.v"},
    {"blocks.{}.attn.proj", "encoder.block.{}.layer.0.SelfAttention.o"},
    {"blocks.{}.norm2", "encoder.block.{}.layer.1.layer_norm"},
    {"blocks.{}.mlp.fc1",
     "encoder.block.{}.layer.1.DenseReluDense.wi|encoder.block.{}.layer.1.DenseReluDense.wi_0+encoder.block.{}.layer.1."
     "DenseReluDense.wi_1"},
    {"blocks.{}.mlp.fc2", "encoder.block.{}.layer.1.DenseReluDense.wo"},
    {"norm", "encoder.final_layer_norm"},
};
constexpr NameRow kDecoderRows[] = {
    {"token_embed", "shared|decoder.embed_tokens"},
    {"rel_bias", "decoder.block.0.layer.0.SelfAttention.relative_attention_bias"},
    {"blocks.{}.norm1", "decoder.block.{}.layer.0.layer_norm"},
    {"blocks.{}.attn.qkv",
     "decoder.block.{}.layer.0.SelfAttention.q+decoder.block.{}.layer.0.SelfAttention.k+decoder.block.{}.layer.0."
     "SelfAttention.v"},
    {"blocks.{}.attn.proj", "decoder.block.{}.layer.0.SelfAttention.o"},
    {"blocks.{}.norm_cross", "decoder.block.{}.layer.1.layer_norm"},
    {"blocks.{}.cross_attn.q", "decoder.block.{}.layer.1.EncDecAttention.q"},
    {"blocks.{}.cross_attn.kv",
     "decoder.block.{}.layer.1.EncDecAttention.k+decoder.block.{}.layer.1.EncDecAttention.v"},
    {"blocks.{}.cross_attn.proj", "decoder.block.{}.layer.1.EncDecAttention.o"},
    {"blocks.{}.norm2", "decoder.block.{}.layer.2.layer_norm"},
    {"blocks.{}.mlp.fc1",
     "decoder.block.{}.layer.2.DenseReluDense.wi|decoder.block.{}.layer.2.DenseReluDense.wi_0+decoder.block.{}.layer.2."
     "DenseReluDense.wi_1"},
    {"blocks.{}.mlp.fc2", "decoder.block.{}.layer.2.DenseReluDense.wo"},
    {"norm", "decoder.final_layer_norm"},
    {"head", "lm_head"},
};
// Copies of the shared table (RequireHfCopies), the head where it is this table (HfTiesHead), and a bias of
// cross-attention's positions that the first version stored and never read.
constexpr std::string_view kShared = "shared.weight", kEncoderTable = "encoder.embed_tokens.weight",
                           kDecoderTable = "decoder.embed_tokens.weight", kHead = "lm_head.weight";
constexpr std::string_view kIgnored[] = {kEncoderTable, kDecoderTable, kHead,
                                         "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"};
constexpr std::string_view kAnchors[] = {kShared, kEncoderTable};
constexpr std::span<const NameRow> kEncoderTables[] = {kEncoderRows}, kDecoderTables[] = {kDecoderRows};
constexpr Layout kEncoderLayout = {kEncoderTables, kIgnored, {}}, kDecoderLayout = {kDecoderTables, kIgnored, {}};

// Any text is read: distances beyond the trained ones share a row. This only bounds the tables.
constexpr int64_t kLength = 8192;
constexpr int64_t kTrainedLength = 512;

constexpr io::KnownKey kKnown[] = {
    {"is_encoder_decoder"}, {"num_decoder_layers"}, {"output_past"}, {"scale_decoder_outputs"},  // of an encoder alone
};

SequenceConfig ReadPart(const io::Fields& config, int64_t depth) {
  SequenceConfig c;
  c.vocabulary = config.Int("vocab_size", 32128);
  c.outputs = 0;
  c.length = kLength;
  c.block.width = config.Int("d_model", 512);
  c.depth = depth;
  nn::AttentionConfig& a = c.block.attention;
  a.heads = config.Int("num_heads", 8);
  a.head_width = config.Int("d_kv", 64);
  a.bias = a.projection_bias = false;
  nn::MlpConfig& mlp = c.block.mlp;
  mlp.width = config.Int("d_ff", 2048);
  mlp.bias = false;
  std::string activation = config.String("feed_forward_proj", "relu");
  constexpr std::string_view kGated = "gated-";
  if (activation.starts_with(kGated)) {
    mlp.gate = simd::Gate::kFirst;
    activation.erase(0, kGated.size());
    if (activation == "gelu") activation = "gelu_new";
  }
  // The library's own form of the same, which it writes beside it, counts where it is there.
  if (!config.Bool("is_gated_act", mlp.gate != simd::Gate::kNone)) mlp.gate = simd::Gate::kNone;
  mlp.activation = HfActivation(config.String("dense_act_fn", activation));
  c.block.norm = {.kind = simd::NormKind::kRms, .eps = config.Number("layer_norm_epsilon", 1e-6), .bias = false};
  c.positions = SequencePositions::kRelative;
  c.relative_buckets = config.Int("relative_attention_num_buckets", 32);
  c.relative_distance = config.Int("relative_attention_max_distance", 128);
  c.unscaled_scores = true;
  return c;
}

TextDescription DescribeHfT5(const io::Fields& config, const io::TensorSet& tensors) {
  TextDescription description;
  description.model_type = "t5";
  description.architecture = HfArchitecture(config, "T5ForConditionalGeneration");
  description.trained_length = config.Int("n_positions", kTrainedLength);
  const int64_t layers = config.Int("num_layers", 6);
  description.encoder = ReadPart(config, layers);
  const bool shares = tensors.Find(kShared) != nullptr;
  const std::string_view table = shares ? kShared : kDecoderTable;
  RequireHfCopies(tensors, table, std::array{kEncoderTable, kDecoderTable});
  if (description.architecture == "T5EncoderModel") return description;
  Require(description.architecture == "T5ForConditionalGeneration" || description.architecture == "T5WithLMHeadModel" ||
              description.architecture == "T5Model",
          "{}: architecture \"{}\" is not supported (T5ForConditionalGeneration and T5EncoderModel are)",
          config.where(), description.architecture);
  SequenceConfig c = ReadPart(config, config.Int("num_decoder_layers", layers));
  c.causal = true;
  c.block.cross = c.block.attention;
  c.block.cross->of_source = true;
  c.outputs = c.vocabulary;
  c.head_bias = false;
  // T5 1.1 and Flan-T5 have a head of their own and do not scale; version 5 of the library writes this as a key.
  const bool tied = config.Bool("tie_word_embeddings", true);
  c.tied_head = tensors.Find(kHead) == nullptr || HfTiesHead(config, tensors, table, kHead, &description.assumptions);
  const bool states_scale = config.json().contains("scale_decoder_outputs");  // null is false here
  if (config.Bool("scale_decoder_outputs", tied && !states_scale))
    c.head_scale = 1 / std::sqrt(static_cast<double>(c.block.width));
  description.decoder = c;
  return description;
}

}  // namespace

constinit const TextFamilyRow kHfT5 = {.model_types = kModelTypes,
                                       .describe = DescribeHfT5,
                                       .encoder = [](const SequenceConfig&) -> const Layout& { return kEncoderLayout; },
                                       .decoder = [](const SequenceConfig&) -> const Layout& { return kDecoderLayout; },
                                       .known = kKnown,
                                       .anchors = kAnchors};

}  // namespace qkv::model
