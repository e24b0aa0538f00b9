// Hugging Face transformers: the encoders of ViT-MAE and I-JEPA, and ViT-MSN. They are ViTs under other names: ViT-MAE
// without masking (its decoder is left out), I-JEPA without a class token, whose answer is the mean of its patches.
#include <algorithm>

#include "qkv/core/error.h"
#include "qkv/model/families/families.h"
#include "qkv/model/families/hf_common.h"
#include "qkv/model/families/names_attention.h"
#include "qkv/model/families/preprocess_common.h"
#include "qkv/model/layout/tensor_names.h"

namespace qkv::model {
namespace {

constexpr HfType kMae = {"vit_mae", "ViTMAE", "Hugging Face's ViT-MAE"};
constexpr HfType kMsn = {"vit_msn", "ViTMSN", "Hugging Face's ViT-MSN"};
constexpr HfType kIJepa = {"ijepa", "IJepa", "Hugging Face's I-JEPA"};
constexpr HfType kTypes[] = {kMae, kMsn, kIJepa};
constexpr std::string_view kModelTypes[] = {kMae.type, kMsn.type, kIJepa.type};

// ---------------------------------------------------------------------------------------------------------------------
// Names of tensors: on disk; in memory of transformers 5; and as transformers 5 writes the blocks of ViT-MSN's
// classifier

constexpr NameRow kBlocks[] = {
    {"blocks.{}.norm1",
     "@encoder.layer.{}.layernorm_before|@layers.{}.layernorm_before|encoder.layer.{}.layernorm_before"},
    {"blocks.{}.attn.qkv",
     "@encoder.layer.{}.attention.attention.query+@encoder.layer.{}.attention.attention.key+"
     "@encoder.layer.{}.attention.attention.value"
     "|@layers.{}.attention.q_proj+@layers.{}.attention.k_proj+@layers.{}.attention.v_proj"
     "|encoder.layer.{}.attention.attention.query+encoder.layer.{}.attention.attention.key+"
     "encoder.layer.{}.attention.attention.value"},
    {"blocks.{}.attn.proj",
     "@encoder.layer.{}.attention.output.dense|@layers.{}.attention.o_proj|encoder.layer.{}.attention.output.dense"},
    {"blocks.{}.norm2",
     "@encoder.layer.{}.layernorm_after|@layers.{}.layernorm_after|encoder.layer.{}.layernorm_after"},
    {"blocks.{}.mlp.fc1",
     "@encoder.layer.{}.intermediate.dense|@layers.{}.mlp.fc1|encoder.layer.{}.intermediate.dense"},
    {"blocks.{}.mlp.fc2", "@encoder.layer.{}.output.dense|@layers.{}.mlp.fc2|encoder.layer.{}.output.dense"},
};

constexpr std::span<const NameRow> kTables[] = {kBlocks, kHfRows, kAttentionKindRows};
constexpr std::string_view kIgnored[] = {"@embeddings.mask_token", "decoder.*"};
constexpr Layout kLayout = {kTables, kIgnored, {}};

// ---------------------------------------------------------------------------------------------------------------------
// config.json

Description DescribeRelative(const io::Fields& file, const std::optional<io::Json>& preprocessor,
                             const io::TensorSet& tensors) {
  io::Json encoder = file.json();
  const std::string name = file.String("model_type", "");
  const HfType& type = *std::ranges::find(kTypes, name, &HfType::type);
  if (encoder.contains("architectures") && encoder["architectures"] == io::Json({"ViTMAEForPreTraining"})) {
    encoder["architectures"] = {"ViTMAEModel"};
  }
  const io::Fields config = file.With(encoder);
  Description description = ReadHfModel(config, type, /*patch=*/type.type == kIJepa.type ? 14 : 16, tensors);
  VitConfig& c = description.config;
  if (type.type == kMsn.type) c.block.norm.eps = config.Number("layer_norm_eps", 1e-6);
  if (type.type == kIJepa.type) {
    Require(!FindWithSuffix(tensors, "pooler.dense.weight"),
            "config.json: I-JEPA with a pooler is not supported (its classes are made without one)");
    c.class_token = false;
    c.pool = Pool::kMean;
  }
  c.position_prefix = c.prefix();
  ReadHfClassifier(config, &description);
  SetHfPreprocessor(
      preprocessor,
      {{"image_processor_type", "ViTImageProcessor"}, {"size", {{"height", c.image_height}, {"width", c.image_width}}}},
      &description);
  return description;
}

// Tensors of ViT-MAE and ViT-MSN cannot be told from those of ViT, whose row reads them.
bool AreIJepaTensors(const io::TensorSet& tensors) {
  return HasHfPatches(tensors) && FindWithSuffix(tensors, "embeddings.position_embeddings") &&
         !FindWithSuffix(tensors, "embeddings.cls_token") && FindWithSuffix(tensors, "0.layernorm_before.weight");
}

Description DescribeIJepaTensors(const io::TensorSet& tensors, const ModelHints& given) {
  const io::Json config = HfConfigFromTensors(tensors, given, kIJepa);
  Description description = DescribeRelative(io::Fields(config, "config.json"), {}, tensors);
  NoteHfAssumptions(given, &description);
  return description;
}

Translation Refuse(const Description& description) {
  Fail("convert: {} cannot be written as a model of {}: only ViT, DeiT, DINOv2 and DINOv3 can",
       description.config.architecture, Name(Family::kHuggingFace));
}

bool IsRelative(const VitConfig& c) {
  return c.family == Family::kHuggingFace &&
         std::ranges::any_of(kTypes, [&](const HfType& type) { return c.architecture.starts_with(type.stem); });
}

}  // namespace

constinit const FamilyRow kHfVitRelatives = {
    .library = Family::kHuggingFace,
    .model_types = kModelTypes,
    .recognises = [](const io::Fields& config) { return HasModelType(config, kModelTypes); },
    .recognises_tensors = AreIJepaTensors,
    .describe = DescribeRelative,
    .known = kHfImageKeys,
    .describe_tensors = DescribeIJepaTensors,
    .settings = kHfSettings,
    .preprocess_settings = kHfPreprocessKeys,
    .arguments = [](io::Json& config) -> io::Json& { return config; },
    .change_preprocess = ChangeHfPreprocess,
    .write_labels = WriteHfLabels,
    .holds = IsRelative,
    .layout = [](const VitConfig&) -> const Layout& { return kLayout; },
    .preprocess = PreprocessOfHf,
    .preprocess_known = kHfProcessorKeys,
    .translate = Refuse,
};

}  // namespace qkv::model
