#include "qkv/model/families/hf_common.h"

#include <algorithm>
#include <cstdlib>
#include <tuple>
#include <vector>

#include "qkv/core/error.h"
#include "qkv/model/config/preprocess_config.h"
#include "qkv/model/config/preprocess_writer.h"
#include "qkv/model/families/from_tensors.h"

namespace qkv::model {
namespace {

using simd::Activation;

constexpr std::string_view kPatches = "embeddings.patch_embeddings.projection.weight";

// The class that wrote the checkpoint; without "architectures" it is inferred from the tensors.
std::string Architecture(const io::Fields& config, const HfType& type, const io::TensorSet& tensors) {
  std::string name(type.stem);
  if (tensors.Find("distillation_classifier.weight")) {
    name += "ForImageClassificationWithTeacher";
  } else {
    name += tensors.Find("classifier.weight") ? "ForImageClassification" : "Model";
  }
  return HfArchitecture(config, std::move(name));
}

bool HasTeacher(const VitConfig& c) { return c.architecture.ends_with("WithTeacher"); }
bool IsClassifier(const VitConfig& c) { return HasTeacher(c) || c.architecture.ends_with("ForImageClassification"); }

std::vector<std::string> ParseLabels(const io::Fields& config) {
  std::vector<std::string> labels;
  if (!config.Has("id2label")) return labels;
  const io::Fields table = config.Object("id2label");
  labels.resize(table.json().size());
  for (const auto& [key, name] : table.json().items()) {
    char* end = nullptr;
    const int64_t index = std::strtoll(key.c_str(), &end, 10);
    Require(*end == '\0' && index >= 0 && index < static_cast<int64_t>(labels.size()),
            "config.json: id2label has {} entries, and one of them is {}; expected 0 to {}", labels.size(),
            io::Quoted(key), labels.size() - 1);
    Require(name.is_string() || name.is_number(), "config.json: id2label: the name of {} is {}, expected a text", key,
            name.type_name());
    labels[static_cast<size_t>(index)] = name.is_string() ? name.get<std::string>() : name.dump();
  }
  return labels;
}

io::Json SizeToJson(int64_t height, int64_t width) {
  return height == width ? io::Json(height) : io::Json::array({height, width});
}

void Refuse(const VitConfig& c, const HfType& type, const Obstructions& own) {
  const auto has_no = [&](std::string_view what) { return fmt::format("{} has no {}", type.who, what); };
  Obstructions list = CommonObstructions(c, type.who);
  const Obstructions shared = {
      {!c.class_token, has_no("model without a class token")},
      {c.positions == Positions::kNone, has_no("model without position embeddings")},
      {c.pre_norm, has_no("LayerNorm before the blocks")},
      {!c.patch_bias, has_no("patch projection without a bias")},
      {!c.block.attention.projection_bias, has_no("output projection without a bias")},
      {!c.block.mlp.bias, has_no("MLP without biases")},
      {c.block.attention.qk_norm, has_no("LayerNorm on queries and keys")},
      {c.block.attention.output_norm, has_no("LayerNorm before the output projection")},
      {c.block.mlp.norm, has_no("LayerNorm inside the MLP")},
      {c.fc_norm, has_no("LayerNorm after pooling")},
      {!c.final_norm && !c.fc_norm, has_no("model without a final LayerNorm")},
  };
  list.insert(list.end(), shared.begin(), shared.end());
  list.insert(list.end(), own.begin(), own.end());
  RefuseObstructed(c, Family::kHuggingFace, list);
}

}  // namespace

bool HasModelType(const io::Fields& config, std::span<const std::string_view> types) {
  return config.Has("model_type") && std::ranges::find(types, config.String("model_type", "")) != types.end();
}

bool HasHfPatches(const io::TensorSet& tensors) { return FindWithSuffix(tensors, kPatches) != nullptr; }

Activation HfActivation(const std::string& name) {
  const std::optional<Activation> activation = FindActivation(name);
  Require(activation.has_value(), "config.json: activation \"{}\" is not one of {}", name, kActivationNames);
  return *activation;
}

std::string HfArchitecture(const io::Fields& config, std::string otherwise) {
  if (config.Has("architectures")) {
    const io::Json& names = config.json()["architectures"];
    if (names.is_array() && !names.empty() && names[0].is_string()) return names[0].get<std::string>();
  }
  return otherwise;
}

namespace {

// One storage in PyTorch's files; otherwise two ranges, which are read once.
bool HaveEqualBytes(const io::StoredTensor& a, const io::StoredTensor& b) {
  if (a.dtype != b.dtype || a.shape != b.shape) return false;
  if (a.bytes.data() == b.bytes.data()) return true;
  const bool equal = std::ranges::equal(a.bytes, b.bytes);
  a.RequireIntact(), b.RequireIntact();
  return equal;
}

}  // namespace

bool HfTiesHead(const io::Fields& config, const io::TensorSet& tensors, std::string_view table, std::string_view head,
                std::vector<std::string>* assumptions, bool unless_given) {
  if (!config.Bool("tie_word_embeddings", unless_given)) return false;
  const io::StoredTensor *const a = FindWithSuffix(tensors, table), *const b = FindWithSuffix(tensors, head);
  if (a == nullptr || b == nullptr || HaveEqualBytes(*a, *b)) return true;
  assumptions->push_back(FormatShown(
      "warning: {} is used, although the configuration ties the head to {}: their values differ", b->name, a->name));
  return false;
}

void RequireHfCopies(const io::TensorSet& tensors, std::string_view table, std::span<const std::string_view> copies) {
  const io::StoredTensor* const shared = FindWithSuffix(tensors, table);
  for (const std::string_view name : copies) {
    const io::StoredTensor* const copy = FindWithSuffix(tensors, name);
    Require(shared == nullptr || copy == nullptr || HaveEqualBytes(*shared, *copy),
            "{} has other values than {}, of which it is a copy in this kind of model: the file is damaged, or its "
            "model is not supported",
            copy == nullptr ? name : std::string_view(copy->name),
            shared == nullptr ? table : std::string_view(shared->name));
  }
}

void ReadHfEncoder(const io::Fields& config, const HfDefaults& defaults, VitConfig* c) {
  std::tie(c->image_height, c->image_width) = config.Size("image_size", {224, 224});
  std::tie(c->patch_height, c->patch_width) = config.Size("patch_size", {defaults.patch, defaults.patch});
  c->channels = config.Int("num_channels", 3);
  c->block.width = config.Int("hidden_size", 768);
  c->depth = config.Int("num_hidden_layers", 12);
  c->block.attention.heads = config.Int("num_attention_heads", 12);
  Require(c->block.attention.heads > 0 && c->block.width >= c->block.attention.heads,
          "config.json: hidden_size {} and num_attention_heads {} do not fit", c->block.width,
          c->block.attention.heads);
  c->block.attention.head_width = config.Int("head_dim", c->block.width / c->block.attention.heads);
  c->block.mlp.width = config.Int("intermediate_size", 3072);
  c->block.mlp.activation = HfActivation(config.String("hidden_act", std::string(defaults.activation)));
  c->block.norm.eps = config.Number("layer_norm_eps", defaults.eps);
  c->interpolation = Interpolation::kBicubic;
  c->square_positions = c->crops_to_patches = true;
}

void ReadHfDinov3Biases(const io::Fields& config, VitConfig* c) {
  nn::AttentionConfig& attention = c->block.attention;
  attention.bias = config.Bool("query_bias", true);
  attention.key_bias = attention.bias && config.Bool("key_bias", false);
  Require(
      attention.bias == config.Bool("value_bias", true) && (attention.bias || !config.Bool("key_bias", false)),
      "config.json: query_bias {}, key_bias {} and value_bias {} are not supported (biases of queries and values, of "
      "all three, or none)",
      attention.bias, config.Bool("key_bias", false), config.Bool("value_bias", true));
  attention.projection_bias = config.Bool("proj_bias", true);
  c->block.mlp.bias = config.Bool("mlp_bias", true);
}

void ReadHfHeads(const io::Fields& config, const std::string& width_key, int64_t width, const std::string& heads_key,
                 int64_t heads, nn::BlockConfig* block) {
  width = config.Int(width_key, width), heads = config.Int(heads_key, heads);
  Require(heads > 0 && width > 0 && width % heads == 0, "{}: {} {} is no multiple of {} {}", config.where(), width_key,
          width, heads_key, heads);
  RequireRange(width_key, width, 1, kMaxExtent);
  block->width = width;
  block->attention.heads = heads;
  block->attention.head_width = width / heads;
}

Description ReadHfModel(const io::Fields& config, const HfType& type, int64_t patch, const io::TensorSet& tensors) {
  Description description;
  VitConfig& c = description.config;
  c.family = Family::kHuggingFace;
  c.architecture = Architecture(config, type, tensors);
  Require(IsClassifier(c) || c.architecture.ends_with("Model"),
          "config.json: architecture \"{}\" is not supported (…ForImageClassification, "
          "…ForImageClassificationWithTeacher and bare …Model are)",
          c.architecture);
  ReadHfEncoder(config, {.patch = patch}, &c);
  c.block.attention.bias = config.Bool("qkv_bias", true);
  c.distillation_mean = false;
  return description;
}

int64_t ReadHfLabels(const io::Fields& config, Description* description) {
  description->labels = ParseLabels(config);
  return config.Has("id2label") ? static_cast<int64_t>(description->labels.size()) : config.Int("num_labels", 2);
}

bool ReadHfClassifier(const io::Fields& config, Description* description) {
  VitConfig& c = description->config;
  if (!IsClassifier(c)) return false;
  c.classes = ReadHfLabels(config, description);
  c.distillation_head = HasTeacher(c);
  // As the library's pipeline.
  const std::string problem = config.String("problem_type", "");
  if (problem == "multi_label_classification") c.scores = ClassScores::kSigmoid;
  if (problem == "regression") c.scores = ClassScores::kNone;
  return true;
}

void WriteHfLabels(const Description& description, io::Json* config) {
  io::Json names = io::Json::object(), indices = io::Json::object();
  for (int64_t i = 0; i < description.config.named_classes(); ++i) {
    const auto index = static_cast<size_t>(i);
    const bool named = index < description.labels.size() && !description.labels[index].empty();
    const std::string name = named ? description.labels[index] : fmt::format("LABEL_{}", i);
    names[std::to_string(i)] = name;
    indices[name] = i;
  }
  (*config)["id2label"] = std::move(names);
  (*config)["label2id"] = std::move(indices);
}

void SetHfPreprocessor(const std::optional<io::Json>& preprocessor, io::Json otherwise, Description* description) {
  if (preprocessor) {
    description->preprocess_json = *preprocessor;
    // As AutoImageProcessor: the class of the model's type.
    io::Json& json = description->preprocess_json;
    if (json.is_object() && !json.contains("image_processor_type") && !json.contains("feature_extractor_type")) {
      json["image_processor_type"] = otherwise["image_processor_type"];
    }
    return;
  }
  description->preprocess_json = std::move(otherwise);
  description->assumptions.push_back("no preprocessor_config.json: the defaults of " +
                                     description->preprocess_json["image_processor_type"].get<std::string>());
}

io::Json HfConfigFromTensors(const io::TensorSet& tensors, const ModelHints& given, const HfType& type) {
  const auto extent = [&](std::string_view suffix, int axis) -> int64_t {
    const io::StoredTensor* tensor = FindWithSuffix(tensors, suffix);
    return tensor && tensor->shape.rank() > axis && tensor->shape[axis] <= kMaxTensorExtent ? tensor->shape[axis] : 0;
  };
  const auto has = [&](std::string_view suffix) { return FindWithSuffix(tensors, suffix) != nullptr; };
  const int64_t width = extent(kPatches, 0), patch = extent(kPatches, 2);
  Require(patch > 0 && patch == extent(kPatches, 3), "checkpoint: its patch projection has the shape of none");

  io::Json config;
  config["model_type"] = type.type;
  config["hidden_size"] = width;
  config["num_channels"] = extent(kPatches, 1);
  config["patch_size"] = patch;
  int64_t depth = 0;
  for (const char* pattern : {"encoder.layer.{}.norm1.weight", "encoder.layer.{}.layernorm_before.weight",
                              "layers.{}.layernorm_before.weight"}) {
    int64_t count = 0;
    while (has(fmt::format(fmt::runtime(pattern), count))) ++count;
    depth = std::max(depth, count);
  }
  config["num_hidden_layers"] = depth;
  config["num_attention_heads"] = HeadsGiven(given, width, depth);
  for (const char* name : {"layer.0.intermediate.dense.weight", "layer.0.mlp.fc1.weight", "layers.0.mlp.fc1.weight"}) {
    if (const int64_t hidden = extent(name, 0)) {
      config["intermediate_size"] = hidden;
      config["mlp_ratio"] = static_cast<double>(hidden) / static_cast<double>(std::max<int64_t>(1, width));
    }
  }
  config["use_swiglu_ffn"] = has("layer.0.mlp.weights_in.weight") || has("layer.0.mlp.gate_proj.weight");
  config["qkv_bias"] = has("query.bias") || has("q_proj.bias");
  const int64_t detection = extent("embeddings.detection_tokens", 1);  // which have positions
  config["num_register_tokens"] = extent("embeddings.register_tokens", 1);
  if (detection > 0) config["num_detection_tokens"] = detection;
  const int64_t prefix = has("embeddings.distillation_token") + has("embeddings.cls_token") + detection;
  const int64_t biases = extent("relative_position_bias_table", 0);
  config["image_size"] = patch * (biases > 0 ? SideOfRelativeBiases(biases)
                                             : SquareSide(extent("embeddings.position_embeddings", 1) - prefix));
  if (has("classifier.weight")) config["num_labels"] = extent("classifier.weight", 0);
  if (has("cls_classifier.weight")) config["num_labels"] = extent("cls_classifier.weight", 0);
  if (has("pooler.dense.weight")) config["pooler_output_size"] = extent("pooler.dense.weight", 0);
  return config;
}

void NoteHfAssumptions(const ModelHints& given, Description* description) {
  AddAssumed({{"activation gelu", {"hidden_act"}},
              {fmt::format("LayerNorm's eps {}", description->config.block.norm.eps), {"layer_norm_eps"}}},
             given, &description->assumptions);
}

image::Preprocess PreprocessOfHf(const Description& description, const io::Fields& settings, ImageSize size) {
  return PreprocessFromHuggingFace(settings, static_cast<int>(description.config.channels), size);
}

std::string_view HfName(Activation activation) {
  return activation == Activation::kGeluTanh ? "gelu_pytorch_tanh" : Name(activation);
}

std::string_view DescribePool(Pool pool) {
  switch (pool) {
    case Pool::kToken:
      return "takes the class token alone";
    case Pool::kMean:
      return "pools by the mean of its tokens";
    case Pool::kMax:
      return "pools by the maximum of its tokens";
    case Pool::kMeanMax:
      return "pools by half mean, half maximum of its tokens";
    case Pool::kMap:
      return "pools by attention";
    case Pool::kTokenAndMean:
      return "reads class token and mean";
  }
  return "";
}

std::string HfClass(const VitConfig& c, const HfType& type) {
  const std::string stem(type.stem);
  if (c.distillation_head) return stem + "ForImageClassificationWithTeacher";
  return stem + (c.classes > 0 ? "ForImageClassification" : "Model");
}

Translation BeginHfTranslation(const Description& description, const HfType& type, const Obstructions& own) {
  const VitConfig& c = description.config;
  Refuse(c, type, own);
  const bool gated = c.block.mlp.gate != simd::Gate::kNone;
  Translation translation;
  translation.names_dtype = true;
  translation.config = {{"architectures", {HfClass(c, type)}},
                        {"model_type", type.type},
                        {"image_size", SizeToJson(c.image_height, c.image_width)},
                        {"patch_size", SizeToJson(c.patch_height, c.patch_width)},
                        {"num_channels", c.channels},
                        {"hidden_size", c.block.width},
                        {"num_hidden_layers", c.depth},
                        {"num_attention_heads", c.block.attention.heads},
                        {"hidden_act", HfName(gated ? Activation::kGelu : c.block.mlp.activation)},
                        {"layer_norm_eps", c.block.norm.eps},
                        {"qkv_bias", c.block.attention.bias},
                        {"attention_probs_dropout_prob", 0.0},
                        {"hidden_dropout_prob", 0.0}};
  return translation;
}

void EndHfTranslation(const Description& description, const HfType& type, Interpolation interpolation,
                      Translation* translation) {
  if (description.config.classes > 0) {
    WriteHfLabels(description, &translation->config);
    translation->prefix = std::string(type.type) + ".";
  }
  translation->preprocessor = PreprocessToHuggingFace(description.preprocess, &translation->notes);
  NoteOtherSizes(description, Family::kHuggingFace, interpolation, &translation->notes);
}

}  // namespace qkv::model
