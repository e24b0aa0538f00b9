// timm's VisionTransformer: configuration, tensor names, translation. The hub's config.json overrides the registry's
// arguments, which override the constructor's defaults. Not here: preprocessing (timm_preprocess.cc) and the registry
// (timm_registry.cc).
#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "qkv/core/error.h"
#include "qkv/model/config/preprocess_config.h"
#include "qkv/model/config/preprocess_writer.h"
#include "qkv/model/config/separation.h"
#include "qkv/model/families/describe.h"
#include "qkv/model/families/families.h"
#include "qkv/model/families/from_tensors.h"
#include "qkv/model/families/names_attention.h"
#include "qkv/model/families/preprocess_common.h"
#include "qkv/model/families/timm_beit.h"
#include "qkv/model/families/timm_eva.h"
#include "qkv/model/families/timm_names.h"
#include "qkv/model/families/timm_registry.h"
#include "qkv/model/layout/tensor_names.h"

namespace qkv::model {
namespace {

using simd::Activation;

// ---------------------------------------------------------------------------------------------------------------------
// Names of tensors

// ParallelScalingBlock: one layer makes the MLP's hidden features, four or five times the width, and queries, keys and
// values.
constexpr NameRow kParallelRows[] = {
    {"blocks.{}.norm1", "@blocks.{}.in_norm"},        {"blocks.{}.attn.q_norm", "@blocks.{}.q_norm"},
    {"blocks.{}.attn.k_norm", "@blocks.{}.k_norm"},   {"blocks.{}.attn.proj", "@blocks.{}.attn_out_proj"},
    {"blocks.{}.mlp.fc2", "@blocks.{}.mlp_out_proj"}, {"blocks.{}.ls1.gamma", "@blocks.{}.ls.gamma"},
    {"blocks.{}.ls2.gamma", "@blocks.{}.ls.gamma"},
};
// DiffParallelScalingBlock: besides, one layer reads the heads and the MLP's hidden features side by side; its bias is
// the MLP's here.
constexpr NameRow kParallelMapsRows[] = {
    {"blocks.{}.mlp.fc2.bias", "@blocks.{}.out_proj.bias"}, {"blocks.{}.attn.lambda_q1", "@blocks.{}.lambda_q1"},
    {"blocks.{}.attn.lambda_k1", "@blocks.{}.lambda_k1"},   {"blocks.{}.attn.lambda_q2", "@blocks.{}.lambda_q2"},
    {"blocks.{}.attn.lambda_k2", "@blocks.{}.lambda_k2"},   {"blocks.{}.attn.sub_norm", "@blocks.{}.sub_norm"},
};
constexpr NameRow kFourfoldMapsRows[] = {{"blocks.{}.attn.proj", "@blocks.{}.out_proj[,0:1/5]"},
                                         {"blocks.{}.mlp.fc2", "@blocks.{}.out_proj[,1:5/5]"}};
constexpr NameRow kFivefoldMapsRows[] = {{"blocks.{}.attn.proj", "@blocks.{}.out_proj[,0:1/6]"},
                                         {"blocks.{}.mlp.fc2", "@blocks.{}.out_proj[,1:6/6]"}};
constexpr NameRow kFourfoldRows[] = {
    {"blocks.{}.mlp.fc1", "@blocks.{}.in_proj[0:4/7]"},
    {"blocks.{}.mlp.fc1.bias", "@blocks.{}.in_proj.bias[0:4/7]|@blocks.{}.mlp_bias"},
    {"blocks.{}.attn.qkv", "@blocks.{}.in_proj[4:7/7]"},
};
constexpr NameRow kFivefoldRows[] = {
    {"blocks.{}.mlp.fc1", "@blocks.{}.in_proj[0:5/8]"},
    {"blocks.{}.mlp.fc1.bias", "@blocks.{}.in_proj.bias[0:5/8]|@blocks.{}.mlp_bias"},
    {"blocks.{}.attn.qkv", "@blocks.{}.in_proj[5:8/8]"},
};

constexpr std::span<const NameRow> kTables[] = {kTimmRows, kAttentionKindRows},
                                   kFourfoldTables[] = {kFourfoldRows, kParallelRows, kTimmRows},
                                   kFivefoldTables[] = {kFivefoldRows, kParallelRows, kTimmRows},
                                   kFourfoldMapsTables[] = {kFourfoldMapsRows, kParallelMapsRows, kFourfoldRows,
                                                            kParallelRows, kTimmRows},
                                   kFivefoldMapsTables[] = {kFivefoldMapsRows, kParallelMapsRows, kFivefoldRows,
                                                            kParallelRows, kTimmRows};
// Left from training with masked patches: DINOv2's authors store it.
constexpr std::string_view kIgnored[] = {"mask_token"};
constexpr Layout kLayout = {kTables, kIgnored, {}}, kFourfoldLayout = {kFourfoldTables, kIgnored, {}},
                 kFivefoldLayout = {kFivefoldTables, kIgnored, {}},
                 kFourfoldMapsLayout = {kFourfoldMapsTables, kIgnored, {}},
                 kFivefoldMapsLayout = {kFivefoldMapsTables, kIgnored, {}};

const Layout& LayoutFor(const VitConfig& c) {
  if (c.block.norm_place != nn::NormPlace::kParallel) return kLayout;
  const bool fourfold = c.block.mlp.width == 4 * c.block.width;
  if (c.block.attention.maps() > 1) return fourfold ? kFourfoldMapsLayout : kFivefoldMapsLayout;
  return fourfold ? kFourfoldLayout : kFivefoldLayout;
}

// ---------------------------------------------------------------------------------------------------------------------
// config.json

// The arguments of VisionTransformer that change the computation.
constexpr std::string_view kSettings[] = {"img_size",
                                          "patch_size",
                                          "in_chans",
                                          "num_classes",
                                          "global_pool",
                                          "embed_dim",
                                          "depth",
                                          "num_heads",
                                          "mlp_ratio",
                                          "qkv_bias",
                                          "qk_norm",
                                          "proj_bias",
                                          "scale_attn_norm",
                                          "scale_mlp_norm",
                                          "init_values",
                                          "class_token",
                                          "pos_embed",
                                          "no_embed_class",
                                          "reg_tokens",
                                          "pre_norm",
                                          "final_norm",
                                          "fc_norm",
                                          "dynamic_img_size",
                                          "pool_include_prefix",
                                          "distilled",
                                          "norm_eps",
                                          "act_layer",
                                          "mlp_layer",
                                          "norm_layer",
                                          "embed_norm_layer",
                                          "block_fn",
                                          "attn_layer",
                                          "pos_embed_interpolation",
                                          "pos_embed_align_corners"};

// timm's name, or that of the class, as code writes it.
Activation ParseActivation(const std::string& name, const io::Fields& args) {
  static constexpr std::pair<std::string_view, Activation> kClasses[] = {
      {"GELU", Activation::kGelu}, {"GELUTanh", Activation::kGeluTanh}, {"QuickGELU", Activation::kQuickGelu},
      {"ReLU", Activation::kRelu}, {"SiLU", Activation::kSilu},         {"Tanh", Activation::kTanh}};
  const auto known = std::ranges::find(kClasses, name, &std::pair<std::string_view, Activation>::first);
  if (known != std::end(kClasses)) return known->second;
  const std::optional<Activation> activation = FindActivation(name);
  Require(activation.has_value(), "{}: act_layer \"{}\" is not one of {}", args.where(), name, kActivationNames);
  return *activation;
}

void ParseMlp(const io::Fields& args, double mlp_ratio, VitConfig* c) {
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
  c->block.mlp.width = hidden / 2;  // one packed layer, half of which is the gate
}

// Rejects arguments of VisionTransformer that change the computation in a way that qkv does not support.
void RefuseUnsupported(const io::Fields& args, const std::string& architecture) {
  static constexpr std::array<std::pair<const char*, const char*>, 2> kDefaults = {
      {{"embed_layer", "PatchEmbed"}, {"pos_embed", "learn"}}};
  for (const auto& [key, expected] : kDefaults) {
    const std::string value = args.String(key, expected);
    const bool no_positions = std::string_view(key) == "pos_embed" && (value.empty() || value == "none");
    Require(value == expected || no_positions, "{}: {} \"{}\" is not supported (only \"{}\")", architecture, key, value,
            expected);
  }
}

// timm's name of a norm, or that of the class.
simd::NormKind ParseNorm(const io::Fields& args, const char* key) {
  const std::string name = args.String(key, "layernorm");
  const bool rms = name == "rmsnorm" || name == "RmsNorm";
  Require(rms || name == "layernorm" || name == "LayerNorm", "{}: {} \"{}\" is not one of layernorm, rmsnorm",
          args.where(), key, name);
  return rms ? simd::NormKind::kRms : simd::NormKind::kLayer;
}

// timm's name of an attention layer, or that of the class.
nn::AttentionKind ParseAttention(const io::Fields& args) {
  const std::string name = args.String("attn_layer", "");
  if (name == "diff" || name == "DiffAttention") return nn::AttentionKind::kDifferential;
  Require(name.empty() || name == "attn" || name == "Attention",
          "{}: attn_layer \"{}\" is not supported, expected attn or diff", args.where(), name);
  return nn::AttentionKind::kSeparate;
}

// The class of the blocks, and their norms. MLP and biases must be known.
void ParseBlocks(const io::Fields& args, VitConfig* c) {
  c->block.norm = {.kind = ParseNorm(args, "norm_layer"), .eps = args.Number("norm_eps", 1e-6)};
  c->embed_norm = args.Has("embed_norm_layer");
  Require(!c->embed_norm || ParseNorm(args, "embed_norm_layer") == c->block.norm.kind,
          "{}: embed_norm_layer is not supported where it differs from norm_layer", args.where());
  c->block.attention.kind = ParseAttention(args);
  const std::string block = args.String("block_fn", "Block");
  if (block == "Block") return;
  if (block == "ResPostBlock") {  // whose init_values are of its norms' weights
    c->block.norm_place = nn::NormPlace::kOutput, c->block.layer_scale = false;
    return;
  }
  const bool two_maps = block == "DiffParallelScalingBlock";
  Require(two_maps || block == "ParallelScalingBlock",
          "{}: block_fn \"{}\" is not one of Block, ResPostBlock, ParallelScalingBlock, DiffParallelScalingBlock",
          args.where(), block);
  const nn::MlpConfig& mlp = c->block.mlp;
  Require(mlp.gate == simd::Gate::kNone && !mlp.norm && !c->block.attention.output_norm && mlp.bias &&
              (mlp.width == 4 * c->block.width || mlp.width == 5 * c->block.width),
          "{}: {} is supported with mlp_layer \"Mlp\", mlp_ratio 4 or 5, proj_bias, and without scale_attn_norm and "
          "scale_mlp_norm",
          args.where(), block);
  // These blocks do not read attn_layer.
  c->block.attention.kind = two_maps ? nn::AttentionKind::kDifferential : nn::AttentionKind::kSeparate;
  if (two_maps) c->block.attention.projection_bias = false;  // the layer that reads heads and MLP has one
  c->block.norm_place = nn::NormPlace::kParallel;
}

VitConfig ParseArguments(const io::Fields& args, const std::string& architecture) {
  RefuseUnsupported(args, architecture);
  VitConfig c;
  c.architecture = architecture;
  ParseTimmShape(args, &c);
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

  c.pre_norm = args.Bool("pre_norm", false);
  c.patch_bias = !c.pre_norm;
  c.block.attention.qk_norm = args.Bool("qk_norm", false);
  c.block.attention.output_norm = args.Bool("scale_attn_norm", false);
  c.block.mlp.norm = args.Bool("scale_mlp_norm", false);
  c.block.attention.bias = args.Bool("qkv_bias", true);
  c.block.attention.projection_bias = c.block.mlp.bias = args.Bool("proj_bias", true);
  c.block.layer_scale = args.Number("init_values", 0) != 0;
  ParseBlocks(args, &c);

  ParseTimmPool(args, "token", &c);
  c.pool_prefix = args.Bool("pool_include_prefix", false);
  const bool pooled_norm =
      args.Bool("fc_norm", c.pool == Pool::kMean || c.pool == Pool::kMax || c.pool == Pool::kMeanMax);
  const bool final_norm = args.Bool("final_norm", true);
  c.final_norm = final_norm && !pooled_norm;
  c.fc_norm = final_norm && pooled_norm;
  c.distillation_head = c.distillation_token && c.classes > 0;
  return c;
}

// True for transformers' TimmWrapperModel, which has no classifier, whatever its config.json says of classes.
bool IsWrappedEncoder(const io::Fields& config) {
  const io::Json& classes = config.json().contains("architectures") ? config.json()["architectures"] : io::Json();
  return config.Has("model_type") && classes.is_array() && !classes.empty() && classes[0] == "TimmWrapperModel";
}

bool HasLabels(const io::Fields& config) { return config.Has("label_names") || config.Has("labels"); }

// True if the classifier of this model, a name with its tag, is CLIP's projection into the space of texts: timm stores
// it so for weights that were not fine-tuned on classes.
bool IsProjection(const std::string& name, int64_t classes) {
  TimmArchitecture registered;
  if (classes == 0 || name.find("_clip_") == std::string::npos || name.find("_ft_") != std::string::npos) return false;
  if (!FindTimmArchitecture(name, &registered)) return false;
  constexpr int64_t kImageNet = 1000;
  const int64_t width = io::Fields(registered.pretrained_cfg, "registry").Int("num_classes", kImageNet);
  return width != kImageNet && width == classes;
}

// label_names is a list, or a map from class to name if there are gaps; label_descriptions may have longer names.
std::vector<std::string> ParseLabels(const io::Fields& config, int64_t classes) {
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

void ParseTimmShape(const io::Fields& args, VitConfig* c) {
  std::tie(c->image_height, c->image_width) = args.Size("img_size", {224, 224});
  std::tie(c->patch_height, c->patch_width) = args.Size("patch_size", {16, 16});
  c->channels = args.Int("in_chans", 3);
  c->block.width = args.Int("embed_dim", 768);
  c->depth = args.Int("depth", 12);
  c->block.attention.heads = args.Int("num_heads", 12);
  Require(c->block.attention.heads > 0 && c->block.width > 0 && c->block.width % c->block.attention.heads == 0,
          "{}: embed_dim {} is no multiple of num_heads {}", args.where(), c->block.width, c->block.attention.heads);
  c->block.attention.head_width = c->block.width / c->block.attention.heads;
}

void ParseTimmPool(const io::Fields& args, const std::string& otherwise, VitConfig* c) {
  // "": timm returns all tokens; embeddings and maps select from them.
  const std::string given = args.String("global_pool", otherwise);
  const std::string name = !given.empty() ? given : c->class_token ? "token" : "avg";
  const std::optional<Pool> pool = FindPool(name);
  Require(pool && *pool != Pool::kTokenAndMean, "{}: global_pool \"{}\" is not one of token, avg, max, avgmax, map",
          args.where(), name);
  c->pool = *pool;
}

Description DescribeTimmFile(const io::Fields& config) {
  const std::string architecture = config.String("architecture", "");
  Require(!architecture.empty(), "config.json: \"architecture\" is missing");
  TimmArchitecture registered{io::Json::object(), io::Json::object()};
  const bool known = FindTimmArchitecture(architecture, &registered);
  const bool described = config.Has("model_args") && config.Object("model_args").Has("embed_dim");
  Require(known || described,
          "config.json: architecture \"{}\" is not in qkv's copy of timm's registry; give its arguments in "
          "\"model_args\" (embed_dim, depth, num_heads, …) if it is a plain VisionTransformer",
          architecture);

  // Old files are flat: the keys of pretrained_cfg are at the top level.
  const bool name_alone = known && !config.Has("pretrained_cfg") && !config.Has("input_size") && !config.Has("mean");
  io::Json cfg = config.Has("pretrained_cfg") ? config.Object("pretrained_cfg").json()
                 : name_alone                 ? registered.pretrained_cfg
                                              : config.json();
  if (config.Has("num_classes")) cfg["num_classes"] = config.Int("num_classes", 0);

  // In increasing priority: pretrained_cfg, the registry's arguments, model_args.
  io::Json args = io::Json::object();
  const io::Fields weak(cfg, "pretrained_cfg");
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
  if (IsWrappedEncoder(config)) cfg["num_classes"] = args["num_classes"] = 0;

  Description description;
  const io::Fields arguments = config.Object("model_args").With(args);
  description.config = IsTimmBeit(config)  ? ParseTimmBeit(arguments, architecture)
                       : IsTimmEva(config) ? ParseTimmEva(arguments, architecture)
                                           : ParseArguments(arguments, architecture);
  description.config.family = Family::kTimm;
  Validate(description.config);
  const std::string tag = weak.String("tag", "");
  if (IsProjection(tag.empty() ? architecture : architecture.substr(0, architecture.find('.')) + "." + tag,
                   description.config.classes) &&
      !HasLabels(config)) {
    description.config.projection_width = std::exchange(description.config.classes, 0);
    description.config.projection_bias = true;
  }
  // qkv's own key: `qkv convert` writes it if a model's eps is not that of its architecture.
  description.config.block.norm.eps = config.Number("qkv_norm_eps", description.config.block.norm.eps);
  const io::Json own_size = {description.config.channels, description.config.image_height,
                             description.config.image_width};
  if (!input_size.is_null() && input_size != own_size && !dynamic) {
    description.assumptions.push_back(fmt::format("pretrained_cfg's input_size {} is not the model's: images become {}",
                                                  input_size.dump(), own_size.dump()));
  }
  if (!dynamic || input_size.is_null()) cfg["input_size"] = own_size;
  description.labels = ParseLabels(config, description.config.classes);
  description.preprocess_json = std::move(cfg);
  description.preprocess_file = "config.json: pretrained_cfg";
  return description;
}

Description DescribeTimm(const io::Json& config) { return DescribeTimmFile(io::Fields(config, "config.json")); }

namespace {

// ---------------------------------------------------------------------------------------------------------------------
// Tensors without a config.json

bool AreTimmTensors(const io::TensorSet& tensors) {
  return tensors.Find("blocks.0.attn.qkv.weight") && tensors.Find("patch_embed.proj.weight");
}

int64_t CountBlocks(const io::TensorSet& tensors) {
  int64_t depth = 0;
  while (tensors.Find(fmt::format("blocks.{}.norm1.weight", depth))) ++depth;
  return depth;
}

// timm's arguments, as far as the tensors determine them.
io::Json ArgumentsFromTensors(const io::TensorSet& tensors, const ModelHints& given,
                              std::vector<std::string>* assumptions) {
  const auto has = [&](std::string_view name) { return tensors.Find(name) != nullptr; };
  io::Json args;
  const int64_t width = Extent(tensors, "patch_embed.proj.weight", 0);
  const int64_t patch_h = Extent(tensors, "patch_embed.proj.weight", 2);
  const int64_t patch_w = Extent(tensors, "patch_embed.proj.weight", 3);
  args["embed_dim"] = width;
  args["in_chans"] = Extent(tensors, "patch_embed.proj.weight", 1);
  args["patch_size"] = {patch_h, patch_w};
  args["depth"] = CountBlocks(tensors);
  args["class_token"] = has("cls_token");
  args["distilled"] = has("dist_token");
  args["reg_tokens"] = has("reg_token") ? Extent(tensors, "reg_token", 1) : 0;
  args["num_classes"] = has("head.weight") ? Extent(tensors, "head.weight", 0) : 0;
  args["qkv_bias"] = has("blocks.0.attn.qkv.bias");
  args["proj_bias"] = has("blocks.0.attn.proj.bias");
  args["qk_norm"] = has("blocks.0.attn.q_norm.weight");
  args["attn_layer"] = has("blocks.0.attn.lambda_q1") ? "diff" : "attn";
  args["scale_attn_norm"] = has("blocks.0.attn.norm.weight");
  args["scale_mlp_norm"] = has("blocks.0.mlp.norm.weight");
  if (has("blocks.0.ls1.gamma")) args["init_values"] = 1e-5;
  args["pre_norm"] = has("norm_pre.weight");
  args["fc_norm"] = has("fc_norm.weight");
  args["final_norm"] = has("fc_norm.weight") || has("norm.weight");
  args["global_pool"] = has("attn_pool.latent") ? "map" : has("fc_norm.weight") || !has("cls_token") ? "avg" : "token";

  const int64_t joined = Extent(tensors, "blocks.0.attn.qkv.weight", 0) / 3;
  if (has("blocks.0.attn.q_norm.weight")) {
    args["num_heads"] = joined / std::max<int64_t>(1, Extent(tensors, "blocks.0.attn.q_norm.weight", 0));
  } else {
    args["num_heads"] = HeadsGiven(given, joined, args["depth"]);
  }

  const int64_t fc2 = Extent(tensors, "blocks.0.mlp.fc2.weight", 1);
  int64_t hidden = fc2;
  if (has("blocks.0.mlp.fc1_g.weight")) {
    args["mlp_layer"] = "SwiGLU";
  } else if (Extent(tensors, "blocks.0.mlp.fc1.weight", 0) == 2 * fc2) {
    args["mlp_layer"] = "SwiGLUPacked";
    hidden = 2 * fc2;
  }
  args["act_layer"] = args.contains("mlp_layer") ? "silu" : "gelu";
  args["norm_eps"] = has("norm_pre.weight") ? 1e-5 : 1e-6;  // all CLIP models of timm's registry have 1e-5
  AddAssumed({{"activation " + args["act_layer"].get<std::string>(), {"act_layer"}},
              {fmt::format("LayerNorm's eps {}", args["norm_eps"].get<double>()), {"norm_eps"}}},
             given, assumptions);
  // CLIP models of one shape differ: OpenAI's have quick_gelu and LAION's gelu.
  Require(!has("norm_pre.weight") || given.settings.contains("act_layer"),
          "checkpoint: there is no config.json, and the tensors do not tell which activation the model has; give --set "
          "act_layer=quick_gelu (CLIP by OpenAI) or act_layer=gelu (others), or --architecture");
  // Slightly more than the ratio, because timm multiplies it back and truncates.
  args["mlp_ratio"] = (static_cast<double>(hidden) + 1e-3) / static_cast<double>(width);

  const int64_t prefix = (has("cls_token") ? 1 : 0) + (has("dist_token") ? 1 : 0) + args["reg_tokens"].get<int64_t>();
  if (!has("pos_embed")) {
    args["pos_embed"] = "none";
    args["img_size"] = {14 * patch_h, 14 * patch_w};
    AddAssumed({{"images of 14x14 patches (there are no position embeddings to count)", {"img_size"}}}, given,
               assumptions);
    return args;
  }
  const int64_t positions = Extent(tensors, "pos_embed", 1);
  const bool without_prefix = prefix > 0 && IsSquare(positions) && !IsSquare(positions - prefix);
  args["no_embed_class"] = without_prefix;
  const int64_t side = SquareSide(without_prefix ? positions : positions - prefix);
  args["img_size"] = {side * patch_h, side * patch_w};
  return args;
}

Description DescribeTimmTensors(const io::TensorSet& tensors, const ModelHints& given) {
  std::vector<std::string> assumptions;
  const io::Json args = ArgumentsFromTensors(tensors, given, &assumptions);
  // The name is used only in messages: all arguments are given.
  io::Json config = {{"architecture", "vision_transformer"}, {"model_args", args}};
  config["pretrained_cfg"] = {{"crop_pct", 0.9}, {"interpolation", "bicubic"}};
  const auto channels = static_cast<size_t>(std::clamp<int64_t>(args["in_chans"].get<int64_t>(), 1, 4));
  config["pretrained_cfg"]["mean"] = config["pretrained_cfg"]["std"] = std::vector<double>(channels, 0.5);
  Description description = DescribeTimm(config);
  description.assumptions.insert(description.assumptions.end(), assumptions.begin(), assumptions.end());
  std::vector<Assumed> resizing = {{"images are resized as timm does by default (bicubic)", {"interpolation"}}};
  if (given.crop_pct == 0) resizing.push_back({"0.9 of their side is kept (crop)", {"crop_pct"}});
  AddAssumed(resizing, given, &description.assumptions);
  return description;
}

// Arguments that the tensors determine differently from the configuration. Open settings do not affect shapes.
std::string SettingsThatFit(const VitConfig& c, const io::TensorSet& tensors) {
  ModelHints given{.heads = c.block.attention.heads};
  given.settings["act_layer"] = Name(c.block.mlp.activation);
  io::Json args;
  VitConfig t;
  try {
    std::vector<std::string> ignored;
    args = ArgumentsFromTensors(tensors, given, &ignored);
    t = ParseArguments(io::Fields(args, "the tensors"), c.architecture);
  } catch (const Error&) {
    return "";  // of no plain VisionTransformer
  }
  const bool gates = t.block.mlp.gate != simd::Gate::kNone && c.block.mlp.gate == simd::Gate::kNone;
  const std::tuple<bool, const char*, io::Json> arguments[] = {
      {t.block.width != c.block.width, "embed_dim", t.block.width},
      {t.depth != c.depth, "depth", t.depth},
      {t.patch_height != c.patch_height || t.patch_width != c.patch_width, "patch_size", args["patch_size"]},
      {t.channels != c.channels, "in_chans", t.channels},
      {gates, "mlp_layer", args.value("mlp_layer", "")},
      {gates && c.block.mlp.activation != Activation::kSilu, "act_layer", "SiLU"},
      {t.block.layer_scale && !c.block.layer_scale, "init_values", 1e-5},
      {t.class_token != c.class_token, "class_token", t.class_token},
      {t.registers != c.registers, "reg_tokens", t.registers},
      {t.block.attention.bias != c.block.attention.bias, "qkv_bias", t.block.attention.bias},
      {t.block.attention.qk_norm != c.block.attention.qk_norm, "qk_norm", t.block.attention.qk_norm},
      {t.block.attention.kind != c.block.attention.kind, "attn_layer", args["attn_layer"]},
      {t.pre_norm != c.pre_norm, "pre_norm", t.pre_norm},
      {t.fc_norm != c.fc_norm, "fc_norm", t.fc_norm},
      {t.classes != c.classes, "num_classes", t.classes},
      {t.image_height != c.image_height || t.image_width != c.image_width, "img_size", args["img_size"]},
  };
  std::string text;
  for (const auto& [differs, key, value] : arguments) {
    if (!differs) continue;
    std::string shown = value.is_string() ? value.get<std::string>() : value.dump();
    if (value.is_array()) shown = fmt::format("'{}'", shown);  // the shell takes brackets for a pattern
    text += fmt::format(" --set {}={}", key, shown);
  }
  return text;
}

// ---------------------------------------------------------------------------------------------------------------------
// Translation: an entry of the registry, model_args for what differs from it, pretrained_cfg

constexpr double kEps = 1e-6;  // of the three entries used below

std::string_view EntryFor(const VitConfig& c) {
  if (c.distillation_token) return "deit_base_distilled_patch16_224";
  // timm sets an MLP's class only in Python, so the entry must have it.
  return c.block.mlp.gate == simd::Gate::kNone ? "vit_base_patch16_224" : "vit_giant_patch14_dinov2";
}

void Refuse(const VitConfig& c) {
  // Only the others lack differential attention.
  Obstructions list = CommonObstructions(HasKind(Family::kTimm, c.block.attention.kind) ? AsSeparate(c) : c, "timm");
  const bool gated = c.block.mlp.gate != simd::Gate::kNone;
  const Obstructions more = {
      {c.pre_norm && c.patch_bias, "timm has no bias of the patch projection where a LayerNorm follows it"},
      {!c.pre_norm && !c.patch_bias, "timm has no patch projection without a bias where no LayerNorm follows it"},
      {c.block.attention.projection_bias != c.block.mlp.bias,
       "timm has one switch for the biases of output projection and MLP"},
      {c.pool == Pool::kTokenAndMean,
       "timm has no classifier that reads class token and mean side by side, as Dinov2ForImageClassification does"},
      {c.pooler_width > 0, "timm has no pooler (a dense layer on the class token)"},
      {c.has_relative_biases(), "timm's VisionTransformer has no biases by relative position"},
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

// The arguments of VisionTransformer's constructor that a configuration determines.
io::Json Arguments(const VitConfig& c) {
  const int64_t hidden = c.block.mlp.gate == simd::Gate::kNone ? c.block.mlp.width : 2 * c.block.mlp.width;
  const bool pools = c.pool == Pool::kMean || c.pool == Pool::kMax || c.pool == Pool::kMeanMax;
  io::Json args;
  args["img_size"] = io::Json::array({c.image_height, c.image_width});
  args["patch_size"] = TimmSize(c.patch_height, c.patch_width);
  args["in_chans"] = c.channels;
  args["embed_dim"] = c.block.width;
  args["depth"] = c.depth;
  args["num_heads"] = c.block.attention.heads;
  args["mlp_ratio"] = TimmMlpRatio(hidden, c.block.width);
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
  args["attn_layer"] = c.block.attention.maps() > 1 ? "diff" : "attn";
  args["scale_attn_norm"] = c.block.attention.output_norm;
  args["scale_mlp_norm"] = c.block.mlp.norm;
  args["pre_norm"] = c.pre_norm;
  args["final_norm"] = c.final_norm || c.fc_norm;
  args["fc_norm"] = c.final_norm || c.fc_norm ? c.fc_norm : pools;
  args["init_values"] = c.block.layer_scale ? 1e-5 : 0.0;  // initial value for training; the tensors replace it
  args["act_layer"] = Name(c.block.mlp.activation);
  return args;
}

// The arguments of a registry entry, merged with the constructor's defaults.
io::Json EntryArguments(std::string_view entry, bool pools) {
  io::Json args = io::Json::parse(R"({
    "img_size": 224, "patch_size": 16, "in_chans": 3, "embed_dim": 768, "depth": 12, "num_heads": 12, "mlp_ratio": 4.0,
    "num_classes": 1000, "global_pool": "token", "pool_include_prefix": false, "class_token": true, "reg_tokens": 0,
    "no_embed_class": false, "pos_embed": "learn", "qkv_bias": true, "proj_bias": true, "qk_norm": false,
    "attn_layer": "attn", "scale_attn_norm": false, "scale_mlp_norm": false, "pre_norm": false, "final_norm": true,
    "init_values": 0.0, "act_layer": "gelu"})");
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

io::Json TimmSize(int64_t height, int64_t width) {
  return height == width ? io::Json(height) : io::Json::array({height, width});
}

double TimmMlpRatio(int64_t hidden, int64_t width) {
  const auto D = static_cast<double>(width);
  return ShortestDecimal(static_cast<double>(hidden) / D,
                         [&](double ratio) { return static_cast<int64_t>(D * ratio) == hidden; });
}

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
  EndTimmTranslation(description, kEps, &result);
  return result;
}

void EndTimmTranslation(const Description& description, double entry_eps, Translation* translation) {
  const VitConfig& c = description.config;
  io::Json& config = translation->config;
  std::vector<std::string>& notes = translation->notes;
  if (c.block.norm.eps != entry_eps) {
    config["qkv_norm_eps"] = c.block.norm.eps;
    notes.push_back(fmt::format(
        "timm's LayerNorm will add {:g} to the variance where this model adds {:g} (config.json has no word for it; "
        "qkv itself reads \"qkv_norm_eps\" there)",
        entry_eps, c.block.norm.eps));
  }

  io::Json cfg = PreprocessToTimm(description.preprocess, c.image_height, c.image_width, &notes);
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
  if (description.text) notes.push_back("the text encoder is left out: timm has none");

  NoteOtherSizes(description, Family::kTimm, Interpolation::kBicubicAntialias, &notes);
}

constinit const FamilyRow kTimmVit = TimmRow({
    .model_types = kTimmWrapper,
    .recognises = IsTimmConfig,
    .recognises_tensors = AreTimmTensors,
    .describe_tensors = DescribeTimmTensors,
    .settings = kSettings,
    .settings_that_fit = SettingsThatFit,
    .holds = [](const VitConfig&) { return true; },
    .layout = LayoutFor,
    .translate = TranslateToTimm,
});

}  // namespace qkv::model
