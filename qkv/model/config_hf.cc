// Hugging Face transformers: ViT, DeiT, DINOv2 and DINOv2 with registers, bare or with a classifier.
#include "qkv/model/description.h"
#include "qkv/model/fields.h"
#include "qkv/model/layout.h"

namespace qkv::model {
namespace {

using simd::Activation;

Activation ParseActivation(const std::string& name) {
  const std::optional<Activation> activation = FindActivation(name);
  Require(activation.has_value(), "config.json: activation \"{}\" is not one of {}", name, kActivationNames);
  return *activation;
}

// The class that wrote the checkpoint; without "architectures" the tensors tell.
std::string Architecture(const Fields& config, const std::string& type, const io::SafeTensors& tensors) {
  if (config.Has("architectures")) {
    const io::Json& names = config.json()["architectures"];
    if (names.is_array() && !names.empty() && names[0].is_string()) return names[0].get<std::string>();
  }
  const std::string stem = type == "vit"      ? "ViT"
                           : type == "deit"   ? "DeiT"
                           : type == "dinov2" ? "Dinov2"
                                              : "Dinov2WithRegisters";
  if (tensors.Find("distillation_classifier.weight")) return stem + "ForImageClassificationWithTeacher";
  return stem + (tensors.Find("classifier.weight") ? "ForImageClassification" : "Model");
}

std::vector<std::string> ParseLabels(const Fields& config) {
  std::vector<std::string> labels;
  if (!config.Has("id2label")) return labels;
  const Fields table = config.Object("id2label");
  labels.resize(table.json().size());
  for (const auto& [key, name] : table.json().items()) {
    char* end = nullptr;
    const int64_t index = std::strtoll(key.c_str(), &end, 10);
    Require(*end == '\0' && index >= 0 && index < static_cast<int64_t>(labels.size()) && name.is_string(),
            "config.json: id2label has {} entries, \"{}\" is none of them", labels.size(), key);
    labels[static_cast<size_t>(index)] = name.get<std::string>();
  }
  return labels;
}

void ParseDinov2(const Fields& config, bool registers, VitConfig* c) {
  c->block.mlp.width = HiddenWidth(c->block.width, config.Number("mlp_ratio", 4));
  c->block.layer_scale = true;
  c->interpolation = registers ? Interpolation::kBicubicAntialias : Interpolation::kBicubic;
  c->registers = registers ? config.Int("num_register_tokens", 4) : 0;
  c->block.eps = config.Number("layer_norm_eps", 1e-6);
  if (config.Bool("use_swiglu_ffn", false)) {
    c->block.mlp.gate = simd::Gate::kFirst;
    c->block.mlp.activation = Activation::kSilu;
    c->block.mlp.width = (c->block.mlp.width * 2 / 3 + 7) / 8 * 8;  // two thirds, rounded up to a multiple of 8
  }
}

io::Json DefaultPreprocessor(const std::string& type, const VitConfig& c) {
  io::Json json;
  if (type == "dinov2" || type == "dinov2_with_registers") {
    json["image_processor_type"] = "BitImageProcessor";
    json["size"] = {{"shortest_edge", 256}};
    json["crop_size"] = {{"height", 224}, {"width", 224}};
    json["image_mean"] = {0.485, 0.456, 0.406};
    json["image_std"] = {0.229, 0.224, 0.225};
    json["do_resize"] = json["do_center_crop"] = true;
    json["resample"] = 3;
    return json;
  }
  json["image_processor_type"] = type == "deit" ? "DeiTImageProcessor" : "ViTImageProcessor";
  if (type == "vit") json["size"] = {{"height", c.image_height}, {"width", c.image_width}};
  return json;
}

}  // namespace

Description DescribeHuggingFace(const io::Json& json, const std::optional<io::Json>& preprocessor,
                                const io::SafeTensors& tensors) {
  const Fields config(json, "config.json");
  const std::string type = config.String("model_type", "");
  Require(type == "vit" || type == "deit" || type == "dinov2" || type == "dinov2_with_registers",
          "config.json: model_type \"{}\" is not one of vit, deit, dinov2, dinov2_with_registers", type);
  const bool dinov2 = type.starts_with("dinov2");

  Description description;
  VitConfig& c = description.config;
  c.family = Family::kHuggingFace;
  c.architecture = Architecture(config, type, tensors);
  const bool teacher = c.architecture.ends_with("WithTeacher");
  const bool classifier = teacher || c.architecture.ends_with("ForImageClassification");
  Require(classifier || c.architecture.ends_with("Model"),
          "config.json: architecture \"{}\" is not supported (…ForImageClassification, "
          "…ForImageClassificationWithTeacher and bare …Model are)",
          c.architecture);

  std::tie(c.image_height, c.image_width) = config.Size("image_size", {224, 224});
  std::tie(c.patch_height, c.patch_width) =
      config.Size("patch_size", dinov2 ? std::pair<int64_t, int64_t>(14, 14) : std::pair<int64_t, int64_t>(16, 16));
  c.channels = config.Int("num_channels", 3);
  c.block.width = config.Int("hidden_size", 768);
  c.depth = config.Int("num_hidden_layers", 12);
  c.block.attention.heads = config.Int("num_attention_heads", 12);
  Require(c.block.attention.heads > 0 && c.block.width >= c.block.attention.heads,
          "config.json: hidden_size {} and num_attention_heads {} do not fit", c.block.width, c.block.attention.heads);
  c.block.attention.head_width = config.Int("head_dim", c.block.width / c.block.attention.heads);
  c.block.mlp.width = config.Int("intermediate_size", 3072);
  c.block.mlp.activation = ParseActivation(config.String("hidden_act", "gelu"));
  c.block.eps = config.Number("layer_norm_eps", 1e-12);
  c.block.attention.bias = config.Bool("qkv_bias", true);
  c.interpolation = Interpolation::kBicubic;
  c.square_positions = c.crops_to_patches = true;
  c.distillation_mean = false;
  if (dinov2) ParseDinov2(config, type == "dinov2_with_registers", &c);
  c.distillation_token = type == "deit";
  c.position_prefix = type == "deit" ? 2 : 1;  // registers have none

  if (classifier) {
    description.labels = ParseLabels(config);
    c.classes = config.Has("id2label") ? static_cast<int64_t>(description.labels.size()) : config.Int("num_labels", 2);
    c.distillation_head = teacher;
    if (dinov2) c.pool = Pool::kTokenAndMean;
  } else if (!dinov2 && FindWithSuffix(tensors, "pooler.dense.weight")) {
    c.pooler_width = config.Int("pooler_output_size", c.block.width);
    c.pooler_activation = ParseActivation(config.String("pooler_act", "tanh"));
  }

  if (preprocessor) {
    description.preprocess_json = *preprocessor;
  } else {
    description.preprocess_json = DefaultPreprocessor(type, c);
    description.assumptions.push_back("no preprocessor_config.json: the defaults of " +
                                      description.preprocess_json["image_processor_type"].get<std::string>());
  }
  return description;
}

}  // namespace qkv::model
