// Hugging Face transformers: SigLIP (Zhai et al. 2023), SigLIP 2 of fixed image size, MedSigLIP. SiglipModel with both
// towers, the image encoder alone, and with a classifier. Not here: SigLIP 2 of any aspect ratio (model_type
// "siglip2").
#include "qkv/core/error.h"
#include "qkv/model/families/families.h"
#include "qkv/model/families/hf_common.h"
#include "qkv/model/families/hf_towers.h"
#include "qkv/model/families/names_attention.h"
#include "qkv/model/families/preprocess_common.h"
#include "qkv/model/layout/tensor_names.h"

namespace qkv::model {
namespace {

constexpr std::string_view kModelTypes[] = {"siglip", "siglip_vision_model"};

// ---------------------------------------------------------------------------------------------------------------------
// Names of tensors

constexpr NameRow kRows[] = {
    {"pos_embed", "@embeddings.position_embedding.weight"},
    {"patch_embed.proj", "@embeddings.patch_embedding"},
    {"norm", "@post_layernorm"},
    {"attn_pool.latent", "@head.probe"},
    {"attn_pool.q.weight", "@head.attention.in_proj_weight[0:1/3]"},
    {"attn_pool.q.bias", "@head.attention.in_proj_bias[0:1/3]"},
    {"attn_pool.kv.weight", "@head.attention.in_proj_weight[1:3/3]"},
    {"attn_pool.kv.bias", "@head.attention.in_proj_bias[1:3/3]"},
    {"attn_pool.proj", "@head.attention.out_proj"},
    {"attn_pool.norm", "@head.layernorm"},
    {"attn_pool.mlp.fc1", "@head.mlp.fc1"},
    {"attn_pool.mlp.fc2", "@head.mlp.fc2"},
    {"head", "classifier"},
};
constexpr NameRow kTextHead[] = {{"head", "@head"}};

// The classifier reads the mean of the tokens, not the attention pooling, whose weights are stored all the same.
constexpr std::string_view kClassifierIgnored[] = {"@embeddings.position_ids",
                                                   "@head.probe",
                                                   "@head.attention.in_proj_weight",
                                                   "@head.attention.in_proj_bias",
                                                   "@head.attention.out_proj.weight",
                                                   "@head.attention.out_proj.bias",
                                                   "@head.layernorm.weight",
                                                   "@head.layernorm.bias",
                                                   "@head.mlp.fc1.weight",
                                                   "@head.mlp.fc1.bias",
                                                   "@head.mlp.fc2.weight",
                                                   "@head.mlp.fc2.bias"};

constexpr std::span<const NameRow> kTables[] = {kRows, kHfTowerBlocks, kAttentionKindRows};
constexpr std::span<const NameRow> kTextTables[] = {kHfTextRows, kTextHead, kHfTowerBlocks};
constexpr Layout kLayout = {kTables, kHfTowerIgnored, {}}, kClassifierLayout = {kTables, kClassifierIgnored, {}},
                 kTextLayout = {kTextTables, kHfTowerIgnored, {}};

const Layout& LayoutFor(const VitConfig& config) { return config.classes > 0 ? kClassifierLayout : kLayout; }

// ---------------------------------------------------------------------------------------------------------------------
// config.json

TextTower ReadText(const io::Fields& config) {
  TextTower tower{.matching = Matching::kSigmoid, .logit_bias = true};
  SequenceConfig& c = tower.config;
  c = ReadHfText(config, {.vocabulary = 32000,
                          .length = 64,
                          .width = 768,
                          .heads = 12,
                          .hidden = 3072,
                          .activation = "gelu_pytorch_tanh",
                          .eps = 1e-6});
  c.outputs = config.Int("projection_size", c.block.width);
  c.pool = TokenPool::kLast;
  return tower;
}

Description DescribeHfSiglip(const io::Fields& config, const std::optional<io::Json>& preprocessor,
                             const io::TensorSet&) {
  const bool whole = config.String("model_type", "") == "siglip";
  const std::string architecture = HfArchitecture(config, whole ? "SiglipModel" : "SiglipVisionModel");
  Require(architecture.starts_with("Siglip") && !architecture.starts_with("SiglipText"),
          "config.json: architecture \"{}\" is not supported (SiglipModel, SiglipVisionModel and "
          "SiglipForImageClassification are)",
          architecture);
  const io::Fields vision = whole && HasHfPart(config, "vision_config") ? HfPart(config, "vision_config") : config;
  Description description;
  VitConfig& c = description.config;
  c.family = Family::kHuggingFace;
  c.architecture = architecture;
  ReadHfEncoder(vision, {.patch = 16, .activation = "gelu_pytorch_tanh", .eps = 1e-6}, &c);
  c.class_token = false;
  c.position_prefix = 0;
  const bool classifies = ReadHfClassifier(config, &description);
  const bool pools = vision.Bool("vision_use_head", true) && !classifies;
  c.pool = pools ? Pool::kMap : Pool::kMean;
  if (pools) c.map_mlp_width = c.block.mlp.width;
  if (!pools && !classifies) {
    description.assumptions.push_back("the image encoder has no pooling (\"vision_use_head\"): the mean of its tokens");
  }
  if (whole && architecture == "SiglipModel") {
    Require(pools, "config.json: \"vision_use_head\" is false, but SiglipModel embeds images by this head");
    description.text = ReadText(HfPart(config, "text_config"));
  }
  SetHfPreprocessor(preprocessor,
                    {{"image_processor_type", "SiglipImageProcessor"},
                     {"size", {{"height", c.image_height}, {"width", c.image_width}}}},
                    &description);
  return description;
}

Translation TranslateToHfSiglip(const Description& description) {
  Fail("convert: {} ({}) cannot be written for Hugging Face:\n  qkv does not write SigLIP's layout",
       description.config.architecture, Name(description.config.family));
}

}  // namespace

constinit const FamilyRow kHfSiglip = {
    .library = Family::kHuggingFace,
    .model_types = kModelTypes,
    .recognises = [](const io::Fields& config) { return HasModelType(config, kModelTypes); },
    .recognises_tensors = [](const io::TensorSet&) { return false; },  // CLIP's row reports what is missing
    .describe = DescribeHfSiglip,
    .known = kHfImageKeys,
    .describe_tensors = [](const io::TensorSet&, const ModelHints&) -> Description {
      Fail("checkpoint: SigLIP needs its config.json");
    },
    .preprocess_settings = kHfPreprocessKeys,
    .arguments = [](io::Json& config) -> io::Json& { return config; },
    .change_preprocess = ChangeHfPreprocess,
    .write_labels = WriteHfLabels,
    // Models of other libraries without a class token are refused with the reasons of Hugging Face's ViT.
    .holds =
        [](const VitConfig& c) { return c.family == Family::kHuggingFace && c.architecture.starts_with("Siglip"); },
    .layout = LayoutFor,
    .text_layout = &kTextLayout,
    .preprocess = PreprocessOfHf,
    .preprocess_known = kHfProcessorKeys,
    .translate = TranslateToHfSiglip,
};

}  // namespace qkv::model
