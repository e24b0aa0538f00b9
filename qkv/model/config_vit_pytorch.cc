// vit-pytorch: the constructor's arguments of ViT and SimpleViT. The library itself saves none, so config.json is ours:
// {"library_name": "vit-pytorch", "architecture": "ViT", "image_size": …, "heads": …, "dim_head": …, …}.
// What the tensors determine (dim, depth, mlp_dim, num_classes, channels) may be left out.
#include "qkv/model/description.h"
#include "qkv/model/fields.h"

namespace qkv::model {
namespace {

// Extent of an axis of a tensor that every such model has. Throws Error when it is missing.
int64_t Extent(const io::SafeTensors& tensors, std::string_view name, int axis) {
  const io::StoredTensor* tensor = tensors.Find(name);
  Require(tensor && tensor->shape.rank() > axis, "checkpoint: tensor \"{}\" is missing or has too few axes", name);
  return tensor->shape[axis];
}

int64_t CountBlocks(const io::SafeTensors& tensors) {
  int64_t depth = 0;
  while (tensors.Find(fmt::format("transformer.layers.{}.0.norm.weight", depth))) ++depth;
  return depth;
}

void ParseHead(const Fields& config, const io::SafeTensors& tensors, bool simple, VitConfig* c) {
  const std::string head = simple ? "linear_head" : tensors.Find("mlp_head.1.weight") ? "mlp_head.1" : "mlp_head";
  c->head_norm = head == "mlp_head.1";
  const bool there = tensors.Find(head + ".weight") != nullptr;
  c->classes = config.Int("num_classes", there ? Extent(tensors, head + ".weight", 0) : 0);
  const std::string pool = config.String("pool", simple ? "mean" : "cls");
  Require(pool == "cls" || pool == "mean", "config.json: pool \"{}\" is not one of cls, mean", pool);
  c->pool = pool == "cls" ? Pool::kToken : Pool::kMean;
  c->pool_prefix = true;  // the mean of older releases includes the class token
}

}  // namespace

Description DescribeVitPytorch(const io::Json& json, const io::SafeTensors& tensors) {
  const Fields config(json, "config.json");
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
  c.block.eps = 1e-5;
  c.patch_norms = true;
  c.block.attention.bias = false;
  // A single head of full width has no output projection, except in SimpleViT.
  c.block.attention.projection =
      simple || !(c.block.attention.heads == 1 && c.block.attention.head_width == c.block.width);
  c.block.attention.projection_bias = !simple;
  c.interpolation = Interpolation::kNone;
  c.positions = simple ? Positions::kSinCos : Positions::kLearned;
  const io::StoredTensor* cls_token = tensors.Find("cls_token");
  c.class_token = !simple && cls_token && cls_token->shape.size() > 0;  // an empty one is written for pool = mean
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
  if (config.Has("label_names") && config.json()["label_names"].is_array()) {
    for (const io::Json& label : config.json()["label_names"]) {
      description.labels.push_back(label.is_string() ? label.get<std::string>() : label.dump());
    }
    description.labels.resize(static_cast<size_t>(std::clamp<int64_t>(c.classes, 0, kMaxClasses)));
  }
  return description;
}

}  // namespace qkv::model
