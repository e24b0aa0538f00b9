// To timm's config.json: an entry of its registry, model_args for what differs from it, pretrained_cfg.
#include <string_view>

#include "qkv/model/preprocess_writer.h"
#include "qkv/model/registry.h"
#include "qkv/model/translate.h"

namespace qkv::model {
namespace {

using simd::Activation;

constexpr double kEps = 1e-6;  // of the three entries below

std::string_view EntryFor(const VitConfig& c) {
  if (c.distillation_token) return "deit_base_distilled_patch16_224";
  // timm takes an MLP's class from Python only, so that one must be in the entry.
  return c.block.mlp.gate == simd::Gate::kNone ? "vit_base_patch16_224" : "vit_giant_patch14_dinov2";
}

void Refuse(const VitConfig& c) {
  Obstructions list = CommonObstructions(c, "timm");
  const bool gated = c.block.mlp.gate != simd::Gate::kNone;
  const Obstructions more = {
      {c.pre_norm && c.patch_bias, "timm has no bias of the patch projection where a LayerNorm follows it"},
      {!c.pre_norm && !c.patch_bias, "timm has no patch projection without a bias where no LayerNorm follows it"},
      {c.block.attention.projection_bias != c.block.mlp.bias,
       "timm has one switch for the biases of output projection and MLP"},
      {c.pool == Pool::kTokenAndMean,
       "timm has no classifier that reads class token and mean side by side, as Dinov2ForImageClassification does"},
      {c.pooler_width > 0, "timm has no pooler (a dense layer on the class token)"},
      {c.distillation_token && c.classes > 0 && !c.distillation_head,
       "timm's distilled models have two classifiers; this one reads the class token only"},
      {c.distillation_token && c.classes == 0 && !c.distillation_mean,
       "timm's distilled models without a classifier answer with the mean of two tokens; this one with the class "
       "token"},
      {c.distillation_token && c.registers > 0, "timm has no registers beside a distillation token"},
      {c.distillation_token && gated, "timm's distilled models have no gated MLP"},
  };
  list.insert(list.end(), more.begin(), more.end());
  RefuseObstructed(c, Family::kTimm, list);
}

io::Json SizeOf(int64_t height, int64_t width) {
  return height == width ? io::Json(height) : io::Json::array({height, width});
}

// Of VisionTransformer's constructor, all that a configuration decides.
io::Json Arguments(const VitConfig& c) {
  const int64_t hidden = c.block.mlp.gate == simd::Gate::kNone ? c.block.mlp.width : 2 * c.block.mlp.width;
  const auto width = static_cast<double>(c.block.width);
  const bool pools = c.pool == Pool::kMean || c.pool == Pool::kMax || c.pool == Pool::kMeanMax;
  io::Json args;
  args["img_size"] = io::Json::array({c.image_height, c.image_width});
  args["patch_size"] = SizeOf(c.patch_height, c.patch_width);
  args["in_chans"] = c.channels;
  args["embed_dim"] = c.block.width;
  args["depth"] = c.depth;
  args["num_heads"] = c.block.attention.heads;
  // timm multiplies it back and truncates.
  args["mlp_ratio"] = ShortestDecimal(static_cast<double>(hidden) / width,
                                      [&](double ratio) { return static_cast<int64_t>(width * ratio) == hidden; });
  args["num_classes"] = c.classes;
  args["global_pool"] = Name(c.pool);
  args["pool_include_prefix"] = c.pool_prefix;
  args["class_token"] = c.class_token;
  args["reg_tokens"] = c.registers;
  args["no_embed_class"] = c.prefix() > 0 && c.position_prefix == 0;
  args["pos_embed"] = c.positions == Positions::kLearned ? "learn" : "none";
  args["qkv_bias"] = c.block.attention.bias;
  args["proj_bias"] = c.block.attention.projection_bias;
  args["qk_norm"] = c.block.attention.qk_norm;
  args["scale_attn_norm"] = c.block.attention.output_norm;
  args["scale_mlp_norm"] = c.block.mlp.norm;
  args["pre_norm"] = c.pre_norm;
  args["final_norm"] = c.final_norm || c.fc_norm;
  args["fc_norm"] = c.final_norm || c.fc_norm ? c.fc_norm : pools;
  args["init_values"] = c.block.layer_scale ? 1e-5 : 0.0;  // what training begins with, replaced by the tensors
  args["act_layer"] = Name(c.block.mlp.activation);
  return args;
}

// What an entry of the registry passes, over the constructor's own defaults.
io::Json EntryArguments(std::string_view entry, bool pools) {
  io::Json args = io::Json::parse(R"({
    "img_size": 224, "patch_size": 16, "in_chans": 3, "embed_dim": 768, "depth": 12, "num_heads": 12, "mlp_ratio": 4.0,
    "num_classes": 1000, "global_pool": "token", "pool_include_prefix": false, "class_token": true, "reg_tokens": 0,
    "no_embed_class": false, "pos_embed": "learn", "qkv_bias": true, "proj_bias": true, "qk_norm": false,
    "scale_attn_norm": false, "scale_mlp_norm": false, "pre_norm": false, "final_norm": true, "init_values": 0.0,
    "act_layer": "gelu"})");
  args["fc_norm"] = pools;
  TimmArchitecture registered;
  Require(FindTimmArchitecture(entry, &registered), "convert: {} is not in the registry", entry);
  args.update(registered.args);
  return args;
}

bool AlwaysWritten(std::string_view key) {
  for (const char* name : {"img_size", "patch_size", "in_chans", "embed_dim", "depth", "num_heads", "num_classes"}) {
    if (key == name) return true;
  }
  return key == "global_pool";
}

}  // namespace

Translation TranslateToTimm(const Description& description) {
  const VitConfig& c = description.config;
  Refuse(c);
  Translation result;
  const std::string_view entry = EntryFor(c);
  const io::Json arguments = Arguments(c);
  const bool pools = c.pool == Pool::kMean || c.pool == Pool::kMax || c.pool == Pool::kMeanMax;
  const io::Json of_entry = EntryArguments(entry, pools);
  io::Json& config = result.config;
  config = {{"architecture", entry},
            {"num_classes", c.classes},
            {"num_features", c.block.width},
            {"global_pool", Name(c.pool)},
            {"model_args", io::Json::object()}};
  for (const auto& [key, value] : arguments.items()) {
    if (AlwaysWritten(key) || of_entry[key] != value) config["model_args"][key] = value;
  }
  if (c.block.eps != kEps) {
    config["qkv_norm_eps"] = c.block.eps;
    result.notes.push_back(fmt::format(
        "timm's LayerNorm will add {:g} to the variance where this model adds {:g} (config.json has no word for it; "
        "qkv itself reads \"qkv_norm_eps\" there)",
        kEps, c.block.eps));
  }

  io::Json cfg = PreprocessToTimm(description.preprocess, c.image_height, c.image_width, &result.notes);
  const bool as_trained = cfg["input_size"] == io::Json({c.channels, c.image_height, c.image_width});
  if (!as_trained) config["model_args"]["dynamic_img_size"] = true;
  cfg["fixed_input_size"] = as_trained;
  cfg["custom_load"] = false;
  cfg["num_classes"] = c.classes;
  cfg["pool_size"] = nullptr;
  cfg["first_conv"] = "patch_embed.proj";
  cfg["classifier"] = c.distillation_token ? io::Json({"head", "head_dist"}) : io::Json("head");
  config["pretrained_cfg"] = std::move(cfg);
  if (!description.labels.empty()) config["label_names"] = description.labels;

  NoteOtherSizes(description, Family::kTimm, Interpolation::kBicubicAntialias, &result.notes);
  return result;
}

}  // namespace qkv::model
