// Hugging Face transformers: YOLOS, which detects objects, and its encoder alone. The tokens that become boxes precede
// the patches here and follow them there, which changes no output but the order of tokens.
#include "qkv/core/error.h"
#include "qkv/model/families/families.h"
#include "qkv/model/families/hf_common.h"
#include "qkv/model/families/names_attention.h"
#include "qkv/model/families/preprocess_common.h"
#include "qkv/model/layout/tensor_names.h"

namespace qkv::model {
namespace {

constexpr HfType kYolos = {"yolos", "Yolos", "Hugging Face's YOLOS"};
constexpr std::string_view kModelTypes[] = {kYolos.type};
constexpr std::string_view kDetector = "YolosForObjectDetection", kEncoder = "YolosModel";
constexpr std::string_view kTokens = "embeddings.detection_tokens";

// ---------------------------------------------------------------------------------------------------------------------
// Names of tensors

constexpr NameRow kRows[] = {
    {"det_token", "@embeddings.detection_tokens"},
    {"block_pos_embed", "@encoder.mid_position_embeddings|@encoder.interpolation.mid_position_embeddings"},
    {"blocks.{}.norm1", "@encoder.layer.{}.layernorm_before"},
    {"blocks.{}.attn.qkv",
     "@encoder.layer.{}.attention.attention.query+@encoder.layer.{}.attention.attention.key+"
     "@encoder.layer.{}.attention.attention.value"},
    {"blocks.{}.attn.proj", "@encoder.layer.{}.attention.output.dense"},
    {"blocks.{}.norm2", "@encoder.layer.{}.layernorm_after"},
    {"blocks.{}.mlp.fc1", "@encoder.layer.{}.intermediate.dense"},
    {"blocks.{}.mlp.fc2", "@encoder.layer.{}.output.dense"},
    {"class_head.0", "class_labels_classifier.layers.0"},
    {"class_head.1", "class_labels_classifier.layers.1"},
    {"class_head.2", "class_labels_classifier.layers.2"},
    {"box_head.0", "bbox_predictor.layers.0"},
    {"box_head.1", "bbox_predictor.layers.1"},
    {"box_head.2", "bbox_predictor.layers.2"},
};

constexpr std::span<const NameRow> kTables[] = {kRows, kHfRows, kAttentionKindRows};
constexpr Layout kLayout = {kTables, {}, {}};

// ---------------------------------------------------------------------------------------------------------------------
// config.json

std::string Architecture(const io::Fields& config, const io::TensorSet& tensors) {
  const bool detects = tensors.Find("bbox_predictor.layers.0.weight") != nullptr || tensors.tensors().empty();
  const std::string name = HfArchitecture(config, std::string(detects ? kDetector : kEncoder));
  Require(name == kDetector || name == kEncoder, "config.json: architecture \"{}\" is not supported ({} and {} are)",
          name, kDetector, kEncoder);
  return name;
}

Description DescribeYolos(const io::Fields& file, const std::optional<io::Json>& preprocessor,
                          const io::TensorSet& tensors) {
  io::Json filled = file.json();
  if (!file.Has("image_size")) filled["image_size"] = {512, 864};
  const io::Fields config = file.With(filled);
  Description description;
  VitConfig& c = description.config;
  c.family = Family::kHuggingFace;
  c.architecture = Architecture(config, tensors);
  ReadHfEncoder(config, {}, &c);
  c.square_positions = false;
  c.block.attention.bias = config.Bool("qkv_bias", true);
  c.detection_tokens = config.Int("num_detection_tokens", 100);
  Require(c.detection_tokens > 0, "config.json: \"num_detection_tokens\" is {}, expected at least 1",
          c.detection_tokens);
  c.block_positions = config.Bool("use_mid_position_embeddings", true);
  c.position_prefix = c.prefix();
  if (c.architecture == kDetector) {
    c.detection_classes = ReadHfLabels(config, &description);
    Require(c.detection_classes > 0, "config.json: a detector without classes");
  } else if (FindWithSuffix(tensors, "pooler.dense.weight")) {
    c.pooler_width = c.block.width;
  }
  SetHfPreprocessor(preprocessor, {{"image_processor_type", "YolosImageProcessor"}}, &description);
  return description;
}

bool AreYolosTensors(const io::TensorSet& tensors) {
  return HasHfPatches(tensors) && FindWithSuffix(tensors, kTokens) != nullptr;
}

Description DescribeYolosTensors(const io::TensorSet& tensors, const ModelHints& given) {
  io::Json config = HfConfigFromTensors(tensors, given, kYolos);
  config["use_mid_position_embeddings"] = FindWithSuffix(tensors, "mid_position_embeddings") != nullptr;
  if (const io::StoredTensor* classes = FindWithSuffix(tensors, "class_labels_classifier.layers.2.weight")) {
    Require(classes->shape.rank() == 2 && classes->shape[0] <= kMaxClasses, "checkpoint: {} is {}", classes->name,
            classes->shape);
    config["num_labels"] = classes->shape[0] - 1;
  }
  Description description = DescribeYolos(io::Fields(config, "config.json"), {}, tensors);
  NoteHfAssumptions(given, &description);
  return description;
}

Translation Refuse(const Description& description) {
  Fail("convert: {} cannot be written as a model of {}: detection tokens are in YOLOS's own layout only",
       description.config.architecture, Name(Family::kHuggingFace));
}

bool IsYolos(const VitConfig& c) { return c.family == Family::kHuggingFace && c.detection_tokens > 0; }

}  // namespace

constinit const FamilyRow kHfYolos = {
    .library = Family::kHuggingFace,
    .model_types = kModelTypes,
    .recognises = [](const io::Fields& config) { return HasModelType(config, kModelTypes); },
    .recognises_tensors = AreYolosTensors,
    .describe = DescribeYolos,
    .known = kHfImageKeys,
    .describe_tensors = DescribeYolosTensors,
    .settings = kHfSettings,
    .preprocess_settings = kHfPreprocessKeys,
    .arguments = [](io::Json& config) -> io::Json& { return config; },
    .change_preprocess = ChangeHfPreprocess,
    .write_labels = WriteHfLabels,
    .holds = IsYolos,
    .layout = [](const VitConfig&) -> const Layout& { return kLayout; },
    .preprocess = PreprocessOfHf,
    .preprocess_known = kHfProcessorKeys,
    .translate = Refuse,
};

}  // namespace qkv::model
