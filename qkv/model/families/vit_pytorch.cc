// vit-pytorch's ViT and SimpleViT. The library writes no configuration, so config.json is qkv's own, with the
// constructor's arguments: {"library_name": "vit-pytorch", "architecture": "ViT", "image_size": …, "heads": …,
// "dim_head": …, …}. It may omit what the tensors determine (dim, depth, mlp_dim, num_classes, channels).
#include <algorithm>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "qkv/core/error.h"
#include "qkv/model/config/preprocess_config.h"
#include "qkv/model/families/families.h"
#include "qkv/model/families/names_attention.h"
#include "qkv/model/families/preprocess_common.h"
#include "qkv/model/families/timm_eva.h"
#include "qkv/model/layout/tensor_names.h"

namespace qkv::model {
namespace {

// ---------------------------------------------------------------------------------------------------------------------
// Names of tensors: a dropout between the MLP's layers takes a number in ViT; SimpleViT has none

constexpr NameRow kVitRows[] = {
    {"cls_token", "cls_token"},
    {"pos_embed", "pos_embedding"},
    {"patch_embed.norm_in", "to_patch_embedding.1"},
    {"patch_embed.proj", "to_patch_embedding.2"},
    {"patch_embed.norm_out", "to_patch_embedding.3"},
    {"blocks.{}.norm1", "transformer.layers.{}.0.norm"},
    {"blocks.{}.attn.qkv", "transformer.layers.{}.0.to_qkv"},
    {"blocks.{}.attn.proj", "transformer.layers.{}.0.to_out.0"},
    {"blocks.{}.norm2", "transformer.layers.{}.1.net.0"},
    {"blocks.{}.mlp.fc1", "transformer.layers.{}.1.net.1"},
    {"blocks.{}.mlp.fc2", "transformer.layers.{}.1.net.4"},
    {"norm", "transformer.norm"},
    {"head_norm", "mlp_head.0"},
    {"head", "mlp_head|mlp_head.1"},
};

constexpr NameRow kSimpleRows[] = {
    {"patch_embed.norm_in", "to_patch_embedding.1"},
    {"patch_embed.proj", "to_patch_embedding.2"},
    {"patch_embed.norm_out", "to_patch_embedding.3"},
    {"blocks.{}.norm1", "transformer.layers.{}.0.norm"},
    {"blocks.{}.attn.qkv", "transformer.layers.{}.0.to_qkv"},
    {"blocks.{}.attn.proj", "transformer.layers.{}.0.to_out"},
    {"blocks.{}.norm2", "transformer.layers.{}.1.net.0"},
    {"blocks.{}.mlp.fc1", "transformer.layers.{}.1.net.1"},
    {"blocks.{}.mlp.fc2", "transformer.layers.{}.1.net.3"},
    {"norm", "transformer.norm"},
    {"head", "linear_head"},
};

constexpr std::span<const NameRow> kVitTables[] = {kVitRows, kAttentionKindRows},
                                   kSimpleTables[] = {kSimpleRows, kAttentionKindRows};
constexpr Layout kVit = {kVitTables, {}, {}}, kSimple = {kSimpleTables, {}, {}};

const Layout& LayoutFor(const VitConfig& config) { return config.architecture == "SimpleViT" ? kSimple : kVit; }

// ---------------------------------------------------------------------------------------------------------------------
// config.json

// Keys of training, and keys that the tensors determine.
constexpr io::KnownKey kKnownKeys[] = {{"architecture"}, {"dropout"},     {"emb_dropout"}, {"pretrained_cfg"},
                                       {"pool"},         {"num_classes"}, {"label_names"}, {"license"}};

// Extent of an axis of a tensor that every such model has. Throws Error if it is missing.
int64_t Extent(const io::TensorSet& tensors, std::string_view name, int axis) {
  const io::StoredTensor* tensor = tensors.Find(name);
  Require(tensor && tensor->shape.rank() > axis, "checkpoint: tensor \"{}\" is missing or has too few axes", name);
  return tensor->shape[axis];
}

int64_t CountBlocks(const io::TensorSet& tensors) {
  int64_t depth = 0;
  while (tensors.Find(fmt::format("transformer.layers.{}.0.norm.weight", depth))) ++depth;
  return depth;
}

// The arguments of ViT and SimpleViT.
constexpr std::string_view kSettings[] = {"architecture", "image_size", "patch_size", "num_classes", "dim",     "depth",
                                          "heads",        "mlp_dim",    "pool",       "channels",    "dim_head"};

void ParseHead(const io::Fields& config, const io::TensorSet& tensors, bool simple, VitConfig* c) {
  const std::string head = simple ? "linear_head" : tensors.Find("mlp_head.1.weight") ? "mlp_head.1" : "mlp_head";
  c->head_norm = head == "mlp_head.1";
  const bool there = tensors.Find(head + ".weight") != nullptr;
  c->classes = config.Int("num_classes", there ? Extent(tensors, head + ".weight", 0) : 0);
  const std::string pool = config.String("pool", simple ? "mean" : "cls");
  Require(pool == "cls" || pool == "mean", "config.json: pool \"{}\" is not one of cls, mean", pool);
  c->pool = pool == "cls" ? Pool::kToken : Pool::kMean;
  c->pool_prefix = true;  // in older releases the mean includes the class token
}

Description DescribeVitPytorch(const io::Fields& config, const io::TensorSet& tensors) {
  Description description;
  VitConfig& c = description.config;
  c.family = Family::kVitPytorch;
  c.architecture = config.String("architecture", "ViT");
  const bool simple = c.architecture == "SimpleViT";
  Require(simple || c.architecture == "ViT", "config.json: vit-pytorch's \"{}\" is not supported (ViT, SimpleViT are)",
          c.architecture);

  Require(config.Has("image_size") && config.Has("patch_size"),
          "config.json: \"image_size\" and \"patch_size\" are needed, the tensors do not tell them");
  std::tie(c.image_height, c.image_width) = config.Size("image_size", {0, 0});
  std::tie(c.patch_height, c.patch_width) = config.Size("patch_size", {0, 0});
  c.channels = config.Int("channels", 3);
  c.block.width = config.Int("dim", Extent(tensors, "to_patch_embedding.2.weight", 0));
  c.depth = config.Int("depth", CountBlocks(tensors));
  c.block.attention.heads = config.RequiredInt("heads");
  c.block.attention.head_width = config.Int("dim_head", 64);
  c.block.mlp.width =
      config.Int("mlp_dim", c.depth > 0 ? Extent(tensors, "transformer.layers.0.1.net.1.weight", 0) : 1);
  c.block.norm.eps = 1e-5;
  c.patch_norms = true;
  c.block.attention.bias = false;
  // A single head of full width has no output projection, except in SimpleViT.
  c.block.attention.projection =
      simple || !(c.block.attention.heads == 1 && c.block.attention.head_width == c.block.width);
  c.block.attention.projection_bias = !simple;
  c.interpolation = Interpolation::kNone;
  c.positions = simple ? Positions::kSinCos : Positions::kLearned;
  const io::StoredTensor* cls_token = tensors.Find("cls_token");
  c.class_token = !simple && cls_token && cls_token->shape.size() > 0;  // pool = mean writes an empty one
  c.position_prefix = c.class_token;
  ParseHead(config, tensors, simple, &c);

  if (config.Has("pretrained_cfg")) {
    description.preprocess_json = config.Object("pretrained_cfg").json();
  } else {
    description.preprocess_json = {{"crop_mode", "squash"}, {"crop_pct", 1.0}, {"interpolation", "bicubic"}};
    description.preprocess_json["mean"] =
        std::vector<double>(static_cast<size_t>(std::clamp<int64_t>(c.channels, 1, 4)), 0.5);
    description.preprocess_json["std"] = description.preprocess_json["mean"];
    description.assumptions.push_back(
        "no \"pretrained_cfg\" in config.json: images are squashed to the input size (bicubic), mean = std = 0.5");
  }
  description.preprocess_json["input_size"] = {c.channels, c.image_height, c.image_width};
  description.preprocess_file = "config.json: pretrained_cfg";
  if (config.Has("label_names") && config.json()["label_names"].is_array()) {
    for (const io::Json& label : config.json()["label_names"]) {
      description.labels.push_back(label.is_string() ? label.get<std::string>() : label.dump());
    }
    description.labels.resize(static_cast<size_t>(std::clamp<int64_t>(c.classes, 0, kMaxClasses)));
  }
  return description;
}

// The tensors do not tell the sizes of image and patch, nor the heads.
Description DescribeVitPytorchTensors(const io::TensorSet& tensors, const ModelHints& given) {
  const bool simple = tensors.Find("linear_head.weight") != nullptr;
  io::Json config = {{"library_name", "vit-pytorch"}, {"architecture", simple ? "SimpleViT" : "ViT"}};
  config.update(given.settings);
  if (given.heads > 0) config["heads"] = given.heads;
  Require(config.contains("image_size") && config.contains("patch_size") && config.contains("heads"),
          "checkpoint: vit-pytorch's tensors do not tell the arguments of its class; give them, such as --set "
          "image_size=256 --set patch_size=32 --set heads=16 --set dim_head=64, or put them into a config.json beside "
          "the file: {{\"library_name\": \"vit-pytorch\", \"architecture\": \"ViT\", \"image_size\": 256, "
          "\"patch_size\": 32, \"heads\": 16, \"dim_head\": 64}}");
  return DescribeVitPytorch(io::Fields(config, "config.json"), tensors);
}

// ---------------------------------------------------------------------------------------------------------------------
// Translation: the arguments of the constructor

Translation TranslateToVitPytorch(const Description& description) {
  const VitConfig& c = description.config;
  Require(
      c.family == Family::kVitPytorch,
      "convert: {} ({}) cannot be written for vit-pytorch:\n  vit-pytorch's ViT has a LayerNorm on each side of the "
      "patch projection, and no biases on queries, keys and values",
      c.architecture, Name(c.family));
  Translation result;
  result.config = {{"library_name", "vit-pytorch"},
                   {"architecture", c.architecture},
                   {"image_size", {c.image_height, c.image_width}},
                   {"patch_size", {c.patch_height, c.patch_width}},
                   {"channels", c.channels},
                   {"num_classes", c.classes},
                   {"dim", c.block.width},
                   {"depth", c.depth},
                   {"heads", c.block.attention.heads},
                   {"dim_head", c.block.attention.head_width},
                   {"mlp_dim", c.block.mlp.width},
                   {"pool", c.pool == Pool::kToken ? "cls" : "mean"},
                   {"pretrained_cfg", description.preprocess_json}};
  if (!description.labels.empty()) result.config["label_names"] = description.labels;
  return result;
}

}  // namespace

constinit const FamilyRow kVitPytorch = {
    .library = Family::kVitPytorch,
    .model_types = {},
    .recognises = [](const io::Fields& config) { return config.String("library_name", "") == "vit-pytorch"; },
    .recognises_tensors =
        [](const io::TensorSet& tensors) { return tensors.Find("to_patch_embedding.2.weight") != nullptr; },
    .describe = [](const io::Fields& config, const std::optional<io::Json>&,
                   const io::TensorSet& tensors) { return DescribeVitPytorch(config, tensors); },
    .known = kKnownKeys,
    .describe_tensors = DescribeVitPytorchTensors,
    .settings = kSettings,
    .preprocess_settings = kTimmPreprocessKeys,
    .arguments = [](io::Json& config) -> io::Json& { return config; },
    .change_preprocess = ChangeTimmPreprocess,
    .write_labels = [](const Description& description,
                       io::Json* config) { (*config)["label_names"] = description.labels; },
    .holds = [](const VitConfig&) { return true; },
    .layout = LayoutFor,
    // Under timm's keys, because the library has none.
    .preprocess = [](const Description&, const io::Fields& settings,
                     ImageSize size) { return PreprocessFromTimm(settings, size); },
    .preprocess_known = kTimmKnownKeys,
    .translate = TranslateToVitPytorch,
};

}  // namespace qkv::model
