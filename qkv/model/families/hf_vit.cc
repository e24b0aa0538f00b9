// Hugging Face transformers: ViT and DeiT, without a classifier, with one, or with DeiT's two.
#include "qkv/model/families/families.h"
#include "qkv/model/families/hf_common.h"
#include "qkv/model/families/names_attention.h"
#include "qkv/model/families/preprocess_common.h"
#include "qkv/model/layout/tensor_names.h"

namespace qkv::model {
namespace {

constexpr HfType kVit = {"vit", "ViT", "Hugging Face's ViT"};
constexpr HfType kDeit = {"deit", "DeiT", "Hugging Face's DeiT"};
constexpr std::string_view kModelTypes[] = {kVit.type, kDeit.type};

// ---------------------------------------------------------------------------------------------------------------------
// Names of tensors

constexpr NameRow kBlocks[] = {
    {"blocks.{}.norm1", "@encoder.layer.{}.layernorm_before|@layers.{}.layernorm_before"},
    {"blocks.{}.attn.qkv",
     "@encoder.layer.{}.attention.attention.query+@encoder.layer.{}.attention.attention.key+"
     "@encoder.layer.{}.attention.attention.value"
     "|@layers.{}.attention.q_proj+@layers.{}.attention.k_proj+@layers.{}.attention.v_proj"},
    {"blocks.{}.attn.proj", "@encoder.layer.{}.attention.output.dense|@layers.{}.attention.o_proj"},
    {"blocks.{}.norm2", "@encoder.layer.{}.layernorm_after|@layers.{}.layernorm_after"},
    {"blocks.{}.mlp.fc1", "@encoder.layer.{}.intermediate.dense|@layers.{}.mlp.fc1"},
    {"blocks.{}.mlp.fc2", "@encoder.layer.{}.output.dense|@layers.{}.mlp.fc2"},
};

constexpr NameRow kTeacherHeads[] = {
    {"head", "cls_classifier"},
    {"head_dist", "distillation_classifier"},
};

constexpr std::span<const NameRow> kTables[] = {kBlocks, kHfRows, kAttentionKindRows};
constexpr std::span<const NameRow> kTeacherTables[] = {kTeacherHeads, kBlocks, kHfRows, kAttentionKindRows};
constexpr Layout kLayout = {kTables, kHfMaskToken, {}}, kTeacherLayout = {kTeacherTables, kHfMaskToken, {}};

const Layout& LayoutFor(const VitConfig& config) { return config.distillation_head ? kTeacherLayout : kLayout; }

// ---------------------------------------------------------------------------------------------------------------------
// config.json

io::Json DefaultPreprocessor(bool deit, const VitConfig& c) {
  io::Json json;
  json["image_processor_type"] = deit ? "DeiTImageProcessor" : "ViTImageProcessor";
  if (!deit) json["size"] = {{"height", c.image_height}, {"width", c.image_width}};
  return json;
}

Description DescribeHfVit(const io::Fields& config, const std::optional<io::Json>& preprocessor,
                          const io::TensorSet& tensors) {
  const bool deit = config.String("model_type", "") == kDeit.type;
  Description description = ReadHfModel(config, deit ? kDeit : kVit, /*patch=*/16, tensors);
  VitConfig& c = description.config;
  c.distillation_token = deit;
  c.position_prefix = c.prefix();
  if (!ReadHfClassifier(config, &description) && FindWithSuffix(tensors, "pooler.dense.weight")) {
    c.pooler_width = config.Int("pooler_output_size", c.block.width);
    c.pooler_activation = HfActivation(config.String("pooler_act", "tanh"));
  }
  SetHfPreprocessor(preprocessor, DefaultPreprocessor(deit, c), &description);
  return description;
}

// ViT and DeiT have neither LayerScale nor registers.
bool AreVitTensors(const io::TensorSet& tensors) {
  return HasHfPatches(tensors) && !FindWithSuffix(tensors, "layer_scale1.lambda1") &&
         !FindWithSuffix(tensors, "embeddings.register_tokens");
}

Description DescribeHfVitTensors(const io::TensorSet& tensors, const ModelHints& given) {
  const bool deit = FindWithSuffix(tensors, "embeddings.distillation_token") != nullptr;
  Description description =
      DescribeHfVit(io::Fields(HfConfigFromTensors(tensors, given, deit ? kDeit : kVit), "config.json"), {}, tensors);
  NoteHfAssumptions(given, &description);
  return description;
}

// ---------------------------------------------------------------------------------------------------------------------
// Translation

Obstructions OwnObstructions(const VitConfig& c, std::string_view who) {
  const auto has_no = [&](std::string_view what) { return fmt::format("{} has no {}", who, what); };
  return {
      {c.pool != Pool::kToken, fmt::format("{} reads the class token; this model {}", who, DescribePool(c.pool))},
      {c.registers > 0, has_no("register tokens")},
      {c.block.layer_scale, has_no("LayerScale")},
      {c.block.mlp.gate != simd::Gate::kNone, has_no("gated MLP")},
      {c.distillation_token && c.classes == 0 && c.distillation_mean,
       "DeiTModel answers with the class token; this model, without classifiers, with the mean of its two tokens"},
  };
}

Translation TranslateToHfVit(const Description& description) {
  const VitConfig& c = description.config;
  const HfType& type = c.distillation_token ? kDeit : kVit;
  Translation result = BeginHfTranslation(description, type, OwnObstructions(c, type.who));
  result.config["intermediate_size"] = c.block.mlp.width;
  if (c.pooler_width > 0) {
    result.config["pooler_output_size"] = c.pooler_width;
    result.config["pooler_act"] = HfName(c.pooler_activation);
  } else if (c.classes == 0) {
    result.notes.push_back(
        fmt::format("load it with {}.from_pretrained(…, add_pooling_layer=False): it has no pooler", HfClass(c, type)));
  }
  EndHfTranslation(description, type, Interpolation::kBicubic, &result);
  if (c.family != Family::kHuggingFace && !PreprocessesToTrainedSize(description)) {
    result.notes.push_back("pass interpolate_pos_encoding=True to its forward: images are not of the trained size");
  }
  return result;
}

}  // namespace

constinit const FamilyRow kHfVit = {
    .library = Family::kHuggingFace,
    .model_types = kModelTypes,
    .recognises = [](const io::Fields& config) { return HasModelType(config, kModelTypes); },
    .recognises_tensors = AreVitTensors,
    .describe = DescribeHfVit,
    .known = kHfImageKeys,
    .describe_tensors = DescribeHfVitTensors,
    // Only DINOv2 has LayerScale, and it has no distillation token.
    .settings = kHfSettings,
    .preprocess_settings = kHfPreprocessKeys,
    .arguments = [](io::Json& config) -> io::Json& { return config; },
    .change_preprocess = ChangeHfPreprocess,
    .write_labels = WriteHfLabels,
    .holds = [](const VitConfig& c) { return c.distillation_token || !c.block.layer_scale; },
    .layout = LayoutFor,
    .preprocess = PreprocessOfHf,
    .preprocess_known = kHfProcessorKeys,
    .translate = TranslateToHfVit,
};

}  // namespace qkv::model
