// Hugging Face transformers: CLIP (Radford et al. 2021). CLIPModel with both towers; the image encoder alone, with or
// without its projection; and with a classifier. Not here: the text encoder alone, which has no images.
#include <algorithm>

#include "qkv/core/error.h"
#include "qkv/model/families/families.h"
#include "qkv/model/families/hf_common.h"
#include "qkv/model/families/hf_towers.h"
#include "qkv/model/families/names_attention.h"
#include "qkv/model/families/preprocess_common.h"
#include "qkv/model/layout/tensor_names.h"

namespace qkv::model {
namespace {

constexpr std::string_view kModelTypes[] = {"clip", "clip_vision_model"};

// ---------------------------------------------------------------------------------------------------------------------
// Names of tensors

constexpr NameRow kRows[] = {
    {"cls_token", "@embeddings.class_embedding"},
    {"pos_embed", "@embeddings.position_embedding.weight"},
    {"patch_embed.proj", "@embeddings.patch_embedding"},
    {"norm_pre", "@pre_layrnorm"},
    {"fc_norm", "@post_layernorm"},
    {"projection", "visual_projection"},
    {"head", "classifier"},
};
constexpr NameRow kTextHead[] = {{"head", "text_projection"}};

// The classifier reads tokens before this norm.
constexpr std::string_view kClassifierIgnored[] = {"@embeddings.position_ids", "@post_layernorm.weight",
                                                   "@post_layernorm.bias"};

constexpr std::span<const NameRow> kTables[] = {kRows, kHfTowerBlocks, kAttentionKindRows};
constexpr std::span<const NameRow> kTextTables[] = {kHfTextRows, kTextHead, kHfTowerBlocks};
constexpr Layout kLayout = {kTables, kHfTowerIgnored, {}}, kClassifierLayout = {kTables, kClassifierIgnored, {}},
                 kTextLayout = {kTextTables, kHfTowerIgnored, {}};

const Layout& LayoutFor(const VitConfig& config) { return config.classes > 0 ? kClassifierLayout : kLayout; }

// ---------------------------------------------------------------------------------------------------------------------
// config.json

constexpr int64_t kProjection = 512;  // default of projection_dim
// Checkpoints from before transformers 4.31 name a token that is none of the vocabulary's ends: the end is then the
// greatest id.
constexpr int64_t kLegacyEnd = 2;

TextTower ReadText(const io::Fields& config, int64_t projection) {
  TextTower tower;
  SequenceConfig& c = tower.config;
  c = ReadHfText(config, {.vocabulary = 49408,
                          .length = 77,
                          .width = 512,
                          .heads = 8,
                          .hidden = 2048,
                          .activation = "quick_gelu",
                          .eps = 1e-5});
  c.causal = true;
  c.outputs = projection;
  c.head_bias = false;
  const int64_t end = config.Int("eos_token_id", 49407);
  c.pool = end == kLegacyEnd ? TokenPool::kGreatest : TokenPool::kFirstEnd;
  if (c.pool == TokenPool::kFirstEnd) c.end_token = end;
  return tower;
}

io::Json DefaultPreprocessor(const VitConfig& c) {
  return {{"image_processor_type", "CLIPImageProcessor"},
          {"size", {{"shortest_edge", std::min(c.image_height, c.image_width)}}},
          {"crop_size", {{"height", c.image_height}, {"width", c.image_width}}}};
}

Description DescribeHfClip(const io::Fields& config, const std::optional<io::Json>& preprocessor,
                           const io::TensorSet&) {
  const bool whole = config.String("model_type", "") == "clip";  // also the parts' configurations
  const std::string architecture = HfArchitecture(config, whole ? "CLIPModel" : "CLIPVisionModel");
  Require(
      architecture.starts_with("CLIP") && !architecture.starts_with("CLIPText"),
      "config.json: architecture \"{}\" is not supported (CLIPModel, CLIPVisionModel, CLIPVisionModelWithProjection "
      "and CLIPForImageClassification are)",
      architecture);
  const io::Fields vision = whole && HasHfPart(config, "vision_config") ? HfPart(config, "vision_config") : config;
  Description description;
  VitConfig& c = description.config;
  c.family = Family::kHuggingFace;
  c.architecture = architecture;
  ReadHfEncoder(vision, {.patch = 32, .activation = "quick_gelu", .eps = 1e-5}, &c);
  c.patch_bias = false;
  c.pre_norm = true;
  c.final_norm = false;
  if (ReadHfClassifier(config, &description)) {
    c.pool = Pool::kMean;
  } else {
    c.fc_norm = true;
    if (whole && architecture == "CLIPModel") {
      c.projection_width = config.Int("projection_dim", kProjection);
      description.text = ReadText(HfPart(config, "text_config"), c.projection_width);
    } else if (architecture == "CLIPVisionModelWithProjection") {
      c.projection_width = vision.Int("projection_dim", kProjection);
    }
  }
  SetHfPreprocessor(preprocessor, DefaultPreprocessor(c), &description);
  return description;
}

// Always fails: the tensors determine neither heads nor activation.
Description DescribeHfClipTensors(const io::TensorSet&, const ModelHints&) {
  Fail(
      "checkpoint: these are tensors of Hugging Face's CLIP or SigLIP, which tell neither the number of heads nor the "
      "activation; put the model's config.json beside the file");
}

Translation TranslateToHfClip(const Description& description) {
  Fail("convert: {} ({}) cannot be written for Hugging Face:\n  qkv does not write CLIP's layout",
       description.config.architecture, Name(description.config.family));
}

}  // namespace

constinit const FamilyRow kHfClip = {
    .library = Family::kHuggingFace,
    .model_types = kModelTypes,
    .recognises = [](const io::Fields& config) { return HasModelType(config, kModelTypes); },
    .recognises_tensors =
        [](const io::TensorSet& tensors) {
          return FindWithSuffix(tensors, "embeddings.patch_embedding.weight") != nullptr;
        },
    .describe = DescribeHfClip,
    .known = kHfImageKeys,
    .describe_tensors = DescribeHfClipTensors,
    .preprocess_settings = kHfPreprocessKeys,
    .arguments = [](io::Json& config) -> io::Json& { return config; },
    .change_preprocess = ChangeHfPreprocess,
    .write_labels = WriteHfLabels,
    // Models of other libraries with such a norm are refused with the reasons of Hugging Face's ViT.
    .holds = [](const VitConfig& c) { return c.family == Family::kHuggingFace && c.architecture.starts_with("CLIP"); },
    .layout = LayoutFor,
    .text_layout = &kTextLayout,
    .preprocess = PreprocessOfHf,
    .preprocess_known = kHfProcessorKeys,
    .translate = TranslateToHfClip,
};

}  // namespace qkv::model
