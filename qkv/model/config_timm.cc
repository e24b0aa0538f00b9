// timm: config.json of the hub, over the registry's arguments, over VisionTransformer's defaults.
#include <array>

#include "qkv/model/description.h"
#include "qkv/model/fields.h"
#include "qkv/model/registry.h"

namespace qkv::model {
namespace {

using simd::Activation;

Activation ParseActivation(const std::string& name, const Fields& args) {
  const std::optional<Activation> activation = FindActivation(name);
  Require(activation.has_value(), "{}: act_layer \"{}\" is not one of {}", args.where(), name, kActivationNames);
  return *activation;
}

void ParsePool(const Fields& args, VitConfig* c) {
  const std::string name = args.String("global_pool", "token");
  const std::optional<Pool> pool = FindPool(name);
  Require(pool && *pool != Pool::kTokenAndMean, "{}: global_pool \"{}\" is not one of token, avg, max, avgmax, map",
          args.where(), name);
  c->pool = *pool;
  c->pool_prefix = args.Bool("pool_include_prefix", false);
}

void ParseMlp(const Fields& args, double mlp_ratio, VitConfig* c) {
  const std::string layer = args.String("mlp_layer", "Mlp");
  const int64_t hidden = HiddenWidth(c->block.width, mlp_ratio);
  c->block.mlp.width = hidden;
  c->map_mlp_width = hidden;
  if (layer == "Mlp") return;
  if (layer == "SwiGLU") {  // two layers of full width
    c->block.mlp.gate = simd::Gate::kFirst;
    return;
  }
  Require(layer == "SwiGLUPacked" || layer == "GluMlp",
          "{}: mlp_layer \"{}\" is not one of Mlp, SwiGLU, SwiGLUPacked, GluMlp", args.where(), layer);
  Require(hidden % 2 == 0, "{}: {} needs an even hidden width, got {}", args.where(), layer, hidden);
  c->block.mlp.gate = layer == "GluMlp" ? simd::Gate::kLast : simd::Gate::kFirst;
  c->block.mlp.width = hidden / 2;  // one packed layer, half of it is the gate
}

// Arguments of VisionTransformer that change what is computed, in a way that qkv has not got.
void RefuseUnsupported(const Fields& args, const std::string& architecture) {
  static constexpr std::array<std::pair<const char*, const char*>, 4> kDefaults = {
      {{"block_fn", "Block"}, {"attn_layer", "Attention"}, {"embed_layer", "PatchEmbed"}, {"pos_embed", "learn"}}};
  for (const auto& [key, expected] : kDefaults) {
    const std::string value = args.String(key, expected);
    const bool no_positions = std::string_view(key) == "pos_embed" && (value.empty() || value == "none");
    Require(value == expected || no_positions, "{}: {} \"{}\" is not supported (only \"{}\")", architecture, key, value,
            expected);
  }
  const std::string norm = args.String("norm_layer", "layernorm");
  Require(norm == "layernorm" || norm == "LayerNorm", "{}: norm_layer \"{}\" is not supported (only \"layernorm\")",
          architecture, norm);
}

VitConfig ParseArguments(const Fields& args, const std::string& architecture) {
  RefuseUnsupported(args, architecture);
  VitConfig c;
  c.architecture = architecture;
  std::tie(c.image_height, c.image_width) = args.Size("img_size", {224, 224});
  std::tie(c.patch_height, c.patch_width) = args.Size("patch_size", {16, 16});
  c.channels = args.Int("in_chans", 3);
  c.block.width = args.Int("embed_dim", 768);
  c.depth = args.Int("depth", 12);
  c.block.attention.heads = args.Int("num_heads", 12);
  Require(c.block.attention.heads > 0 && c.block.width > 0 && c.block.width % c.block.attention.heads == 0,
          "{}: embed_dim {} is no multiple of num_heads {}", args.where(), c.block.width, c.block.attention.heads);
  c.block.attention.head_width = c.block.width / c.block.attention.heads;
  ParseMlp(args, args.Number("mlp_ratio", 4), &c);
  c.block.mlp.activation = ParseActivation(args.String("act_layer", "gelu"), args);
  c.classes = std::max<int64_t>(0, args.Int("num_classes", 1000));

  c.distillation_token = args.Bool("distilled", false);
  c.class_token = args.Bool("class_token", true);
  c.registers = args.Int("reg_tokens", 0);
  const std::string positions = args.String("pos_embed", "learn");
  c.positions = positions == "learn" ? Positions::kLearned : Positions::kNone;
  c.position_prefix = args.Bool("no_embed_class", false) ? 0 : c.prefix();
  if (args.String("pos_embed_interpolation", "bicubic") == "bilinear") {
    c.interpolation =
        args.Bool("pos_embed_align_corners", false) ? Interpolation::kBilinearAligned : Interpolation::kBilinear;
  }

  c.block.eps = args.Number("norm_eps", 1e-6);
  c.pre_norm = args.Bool("pre_norm", false);
  c.patch_bias = !c.pre_norm;
  c.block.attention.qk_norm = args.Bool("qk_norm", false);
  c.block.attention.output_norm = args.Bool("scale_attn_norm", false);
  c.block.mlp.norm = args.Bool("scale_mlp_norm", false);
  c.block.attention.bias = args.Bool("qkv_bias", true);
  c.block.attention.projection_bias = c.block.mlp.bias = args.Bool("proj_bias", true);
  c.block.layer_scale = args.Number("init_values", 0) != 0;

  ParsePool(args, &c);
  const bool pooled_norm =
      args.Bool("fc_norm", c.pool == Pool::kMean || c.pool == Pool::kMax || c.pool == Pool::kMeanMax);
  const bool final_norm = args.Bool("final_norm", true);
  c.final_norm = final_norm && !pooled_norm;
  c.fc_norm = final_norm && pooled_norm;
  c.distillation_head = c.distillation_token && c.classes > 0;
  return c;
}

// label_names is a list, or a table from class to name where there are gaps; label_descriptions may say more.
std::vector<std::string> ParseLabels(const Fields& config, int64_t classes) {
  static const io::Json kNone = nullptr;
  const io::Json* names = &kNone;
  for (const char* key : {"label_names", "labels"}) {
    if (config.Has(key)) {
      names = &config.json()[key];
      break;
    }
  }
  if (!names->is_array() && !names->is_object()) return {};
  std::vector<std::string> labels(static_cast<size_t>(classes));
  const auto describe = [&](const io::Json& name) -> std::string {
    if (!name.is_string()) return name.dump();
    const auto text = name.get<std::string>();
    if (config.Has("label_descriptions") && config.json()["label_descriptions"].is_object()) {
      const io::Json& descriptions = config.json()["label_descriptions"];
      if (descriptions.contains(text) && descriptions[text].is_string()) return descriptions[text].get<std::string>();
    }
    return text;
  };
  if (names->is_array()) {
    for (size_t i = 0; i < labels.size() && i < names->size(); ++i) labels[i] = describe((*names)[i]);
  } else {
    for (const auto& [key, name] : names->items()) {
      char* end = nullptr;
      const int64_t index = std::strtoll(key.c_str(), &end, 10);
      if (*end == '\0' && index >= 0 && index < classes) labels[static_cast<size_t>(index)] = describe(name);
    }
  }
  return labels;
}

}  // namespace

Description DescribeTimm(const io::Json& json) {
  const Fields config(json, "config.json");
  const std::string architecture = config.String("architecture", "");
  Require(!architecture.empty(), "config.json: \"architecture\" is missing");
  TimmArchitecture registered{io::Json::object(), io::Json::object()};
  const bool known = FindTimmArchitecture(architecture, &registered);
  const bool described = config.Has("model_args") && config.Object("model_args").Has("embed_dim");
  Require(known || described,
          "config.json: architecture \"{}\" is not in qkv's copy of timm's registry; give its arguments in "
          "\"model_args\" (embed_dim, depth, num_heads, …) if it is a plain VisionTransformer",
          architecture);

  // Old files are flat: what belongs into pretrained_cfg stands at the top.
  const bool name_alone = known && !config.Has("pretrained_cfg") && !config.Has("input_size") && !config.Has("mean");
  io::Json cfg = config.Has("pretrained_cfg") ? config.Object("pretrained_cfg").json()
                 : name_alone                 ? registered.pretrained_cfg
                                              : json;
  if (config.Has("num_classes")) cfg["num_classes"] = config.Int("num_classes", 0);

  // From the weakest: pretrained_cfg, the registry's own arguments, model_args.
  io::Json args = io::Json::object();
  const Fields weak(cfg, "pretrained_cfg");
  if (weak.Int("num_classes", -1) >= 0) args["num_classes"] = weak.Int("num_classes", 0);
  if (weak.Has("global_pool")) args["global_pool"] = weak.String("global_pool", "token");
  const bool dynamic = config.Object("model_args").Bool("dynamic_img_size", false);
  const io::Json input_size = weak.Has("input_size") ? cfg["input_size"] : nullptr;
  if (!input_size.is_null()) {
    Require(input_size.is_array() && input_size.size() == 3,
            "pretrained_cfg: \"input_size\" is {}, expected [channels, height, width]", input_size.dump());
    args["in_chans"] = input_size[0];
    if (weak.Bool("fixed_input_size", false) && !dynamic) args["img_size"] = {input_size[1], input_size[2]};
  }
  args.update(registered.args);
  args.update(config.Object("model_args").json());

  Description description;
  description.config = ParseArguments(Fields(args, "config.json: model_args"), architecture);
  description.config.family = Family::kTimm;
  Validate(description.config);
  // Not timm's: what `qkv convert` notes where a model's eps is not that of its architecture.
  description.config.block.eps = config.Number("qkv_norm_eps", description.config.block.eps);
  const io::Json own_size = {description.config.channels, description.config.image_height,
                             description.config.image_width};
  if (!input_size.is_null() && input_size != own_size && !dynamic) {
    description.assumptions.push_back(fmt::format("pretrained_cfg's input_size {} is not the model's: images become {}",
                                                  input_size.dump(), own_size.dump()));
  }
  if (!dynamic || input_size.is_null()) cfg["input_size"] = own_size;
  description.labels = ParseLabels(config, description.config.classes);
  description.preprocess_json = std::move(cfg);
  return description;
}

}  // namespace qkv::model
