// Hugging Face transformers: encoders that read a text with norms after the layers, BERT (Devlin et al. 2019), RoBERTa
// (Liu et al. 2019) and its translations, and DistilBERT (Sanh et al. 2019). Their heads for other tasks are not read.
#include "qkv/core/error.h"
#include "qkv/model/families/hf_common.h"
#include "qkv/model/families/text_family.h"
#include "qkv/model/layout/tensor_names.h"

namespace qkv::model {
namespace {

constexpr std::string_view kBertTypes[] = {"bert", "roberta", "xlm-roberta", "camembert"},
                           kDistilBertTypes[] = {"distilbert"};

// Norms of checkpoints from before 2019 have a gamma and a beta.
constexpr NameRow kBertRows[] = {
    {"token_embed", "@embeddings.word_embeddings"},
    {"pos_embed", "@embeddings.position_embeddings.weight"},
    {"type_embed", "@embeddings.token_type_embeddings"},
    {"norm_pre.weight", "@embeddings.LayerNorm.weight|@embeddings.LayerNorm.gamma"},
    {"norm_pre.bias", "@embeddings.LayerNorm.bias|@embeddings.LayerNorm.beta"},
    {"blocks.{}.attn.qkv",
     "@encoder.layer.{}.attention.self.query+@encoder.layer.{}.attention.self.key+@encoder.layer.{}.attention.self."
     "value"},
    {"blocks.{}.attn.proj", "@encoder.layer.{}.attention.output.dense"},
    {"blocks.{}.norm1.weight",
     "@encoder.layer.{}.attention.output.LayerNorm.weight|@encoder.layer.{}.attention.output.LayerNorm.gamma"},
    {"blocks.{}.norm1.bias",
     "@encoder.layer.{}.attention.output.LayerNorm.bias|@encoder.layer.{}.attention.output.LayerNorm.beta"},
    {"blocks.{}.mlp.fc1", "@encoder.layer.{}.intermediate.dense"},
    {"blocks.{}.mlp.fc2", "@encoder.layer.{}.output.dense"},
    {"blocks.{}.norm2.weight", "@encoder.layer.{}.output.LayerNorm.weight|@encoder.layer.{}.output.LayerNorm.gamma"},
    {"blocks.{}.norm2.bias", "@encoder.layer.{}.output.LayerNorm.bias|@encoder.layer.{}.output.LayerNorm.beta"},
    {"pooler", "@pooler.dense"},
};
constexpr NameRow kDistilBertRows[] = {
    {"token_embed", "@embeddings.word_embeddings"},
    {"pos_embed", "@embeddings.position_embeddings.weight"},
    {"norm_pre", "@embeddings.LayerNorm"},
    {"blocks.{}.attn.qkv",
     "@transformer.layer.{}.attention.q_lin+@transformer.layer.{}.attention.k_lin+@transformer.layer.{}.attention.v_"
     "lin"},
    {"blocks.{}.attn.proj", "@transformer.layer.{}.attention.out_lin"},
    {"blocks.{}.norm1", "@transformer.layer.{}.sa_layer_norm"},
    {"blocks.{}.mlp.fc1", "@transformer.layer.{}.ffn.lin1"},
    {"blocks.{}.mlp.fc2", "@transformer.layer.{}.ffn.lin2"},
    {"blocks.{}.norm2", "@transformer.layer.{}.output_layer_norm"},
};

constexpr std::string_view kIgnored[] = {"@embeddings.position_ids",
                                         "@embeddings.token_type_ids",
                                         "cls.*",
                                         "lm_head.*",
                                         "classifier.*",
                                         "pre_classifier.*",
                                         "qa_outputs.*",
                                         "vocab_transform.*",
                                         "vocab_layer_norm.*",
                                         "vocab_projector.*"};
constexpr std::string_view kAnchors[] = {"embeddings.word_embeddings.weight"};
constexpr std::span<const NameRow> kBertTables[] = {kBertRows}, kDistilBertTables[] = {kDistilBertRows};
constexpr Layout kBertLayout = {kBertTables, kIgnored, {}}, kDistilBertLayout = {kDistilBertTables, kIgnored, {}};

constexpr io::KnownKey kKnown[] = {
    {"model_type"},           {"embedding_size"},
    {"directionality"},  // of the first releases' heads
    {"pooler_fc_size"},       {"pooler_num_attention_heads"},
    {"pooler_num_fc_layers"}, {"pooler_size_per_head"},
    {"pooler_type"},          {"position_embedding_type", "\"absolute\""},
    {"type_vocab_size"},      {"layer_norm_eps"},
    {"sinusoidal_pos_embds"},  // which are stored
    {"tie_weights_"},         {"qa_dropout"},
    {"seq_classif_dropout"},  {"output_past"},
};

// The properties that all of these share.
SequenceConfig BeginEncoder() {
  SequenceConfig c;
  c.outputs = 0;
  c.final_norm = false;
  c.embedding_norm = true;
  c.positions = SequencePositions::kLearned;
  c.block.norm_place = nn::NormPlace::kAfter;
  return c;
}

TextDescription BeginDescription(const io::Fields& config, const std::string& base) {
  TextDescription description;
  description.architecture = HfArchitecture(config, base);
  description.model_type = config.String("model_type", "");
  if (description.architecture != base) {
    description.assumptions.push_back(
        fmt::format("{} is read as {}: a text encoder, without the head", description.architecture, base));
  }
  return description;
}

TextDescription DescribeHfBert(const io::Fields& config, const io::TensorSet& tensors) {
  const std::string type = config.String("model_type", "");
  const bool roberta = type != "bert";
  TextDescription description = BeginDescription(config, roberta ? "RobertaModel" : "BertModel");
  SequenceConfig c = BeginEncoder();
  c.vocabulary = config.Int("vocab_size", roberta ? 50265 : 30522);
  ReadHfHeads(config, "hidden_size", 768, "num_attention_heads", 12, &c.block);
  c.depth = config.Int("num_hidden_layers", 12);
  c.block.mlp.width = config.Int("intermediate_size", 3072);
  c.block.mlp.activation = HfActivation(config.String("hidden_act", "gelu"));
  c.block.norm.eps = config.Number("layer_norm_eps", roberta ? 1e-5 : 1e-12);
  c.token_types = config.Int("type_vocab_size", roberta ? 1 : 2);
  // Positions of RoBERTa begin after the padding's id.
  const int64_t positions = config.Int("max_position_embeddings", 512);
  const int64_t padding = roberta ? config.Int("pad_token_id", 1) : -1;
  RequireRange("max_position_embeddings", positions, 1, kMaxExtent);
  Require(padding >= -1 && padding < positions - 1,
          "{}: \"max_position_embeddings\" {} leaves no position after \"pad_token_id\"", config.where(), positions);
  c.position_offset = padding + 1;
  c.length = positions - c.position_offset;
  const std::string kind = config.String("position_embedding_type", "absolute");
  Require(kind == "absolute", "{}: \"position_embedding_type\" is {}, expected \"absolute\"", config.where(),
          io::Quoted(kind));
  Require(!config.Bool("is_decoder", false), "{}: a {} that is a decoder is not supported", config.where(),
          description.architecture);
  if (FindWithSuffix(tensors, "pooler.dense.weight") != nullptr) c.pooler_width = c.block.width;
  description.encoder = c;
  return description;
}

TextDescription DescribeHfDistilBert(const io::Fields& config, const io::TensorSet&) {
  TextDescription description = BeginDescription(config, "DistilBertModel");
  SequenceConfig c = BeginEncoder();
  c.vocabulary = config.Int("vocab_size", 30522);
  ReadHfHeads(config, "dim", 768, "n_heads", 12, &c.block);
  c.depth = config.Int("n_layers", 6);
  c.block.mlp.width = config.Int("hidden_dim", 3072);
  c.block.mlp.activation = HfActivation(config.String("activation", "gelu"));
  c.block.norm.eps = 1e-12;
  c.length = config.Int("max_position_embeddings", 512);
  description.encoder = c;
  return description;
}

}  // namespace

constinit const TextFamilyRow kHfBert = {.model_types = kBertTypes,
                                         .describe = DescribeHfBert,
                                         .encoder = [](const SequenceConfig&) -> const Layout& { return kBertLayout; },
                                         .known = kKnown,
                                         .anchors = kAnchors};
constinit const TextFamilyRow kHfDistilBert = {
    .model_types = kDistilBertTypes,
    .describe = DescribeHfDistilBert,
    .encoder = [](const SequenceConfig&) -> const Layout& { return kDistilBertLayout; },
    .known = kKnown,
    .anchors = kAnchors};

}  // namespace qkv::model
