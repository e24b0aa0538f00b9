// Hugging Face transformers: DINOv3's ViT, a model without a classifier. Its pairs of rotated features are half-split.
#include <algorithm>
#include <tuple>

#include "qkv/core/error.h"
#include "qkv/model/config/preprocess_writer.h"
#include "qkv/model/families/families.h"
#include "qkv/model/families/from_tensors.h"
#include "qkv/model/families/hf_common.h"
#include "qkv/model/families/preprocess_common.h"
#include "qkv/model/layout/tensor_names.h"

namespace qkv::model {
namespace {

constexpr HfType kType = {"dinov3_vit", "DINOv3ViT", "Hugging Face's DINOv3"};
constexpr std::string_view kModelTypes[] = {kType.type};
constexpr double kBase = 100, kEps = 1e-5;  // defaults of DINOv3ViTConfig

// ---------------------------------------------------------------------------------------------------------------------
// Names of tensors: those on disk, then those in memory of transformers 5

constexpr NameRow kRows[] = {
    {"cls_token", "embeddings.cls_token"},
    {"reg_token", "embeddings.register_tokens"},
    {"patch_embed.proj", "embeddings.patch_embeddings"},
    {"blocks.{}.norm1", "layer.{}.norm1|model.layer.{}.norm1"},
    {"blocks.{}.attn.qkv",
     "layer.{}.attention.q_proj+layer.{}.attention.k_proj+layer.{}.attention.v_proj"
     "|model.layer.{}.attention.q_proj+model.layer.{}.attention.k_proj+model.layer.{}.attention.v_proj"},
    {"blocks.{}.attn.proj", "layer.{}.attention.o_proj|model.layer.{}.attention.o_proj"},
    {"blocks.{}.ls1.gamma", "layer.{}.layer_scale1.lambda1|model.layer.{}.layer_scale1.lambda1"},
    {"blocks.{}.norm2", "layer.{}.norm2|model.layer.{}.norm2"},
    {"blocks.{}.mlp.fc1", "layer.{}.mlp.up_proj|model.layer.{}.mlp.up_proj"},
    {"blocks.{}.mlp.fc2", "layer.{}.mlp.down_proj|model.layer.{}.mlp.down_proj"},
    {"blocks.{}.ls2.gamma", "layer.{}.layer_scale2.lambda1|model.layer.{}.layer_scale2.lambda1"},
    {"norm", "norm"},
};

constexpr NameRow kGated[] = {
    {"blocks.{}.mlp.fc1",
     "layer.{}.mlp.gate_proj+layer.{}.mlp.up_proj|model.layer.{}.mlp.gate_proj+model.layer.{}.mlp.up_proj"},
};

constexpr NameRow kNoKeyBias[] = {
    {"blocks.{}.attn.qkv.bias",
     "layer.{}.attention.q_proj.bias+0+layer.{}.attention.v_proj.bias"
     "|model.layer.{}.attention.q_proj.bias+0+model.layer.{}.attention.v_proj.bias"},
};

constexpr std::span<const NameRow> kTables[] = {kRows}, kGatedTables[] = {kGated, kRows},
                                   kNoKeyBiasTables[] = {kNoKeyBias, kRows},
                                   kGatedNoKeyBiasTables[] = {kGated, kNoKeyBias, kRows};

constexpr std::string_view kMaskToken[] = {"embeddings.mask_token"};
constexpr Layout kLayout = {kTables, kMaskToken, kMaskToken, 3},
                 kGatedLayout = {kGatedTables, kMaskToken, kMaskToken, 3},
                 kNoKeyBiasLayout = {kNoKeyBiasTables, kMaskToken, kMaskToken, 3},
                 kGatedNoKeyBiasLayout = {kGatedNoKeyBiasTables, kMaskToken, kMaskToken, 3};

const Layout& LayoutFor(const VitConfig& c) {
  const bool gated = c.block.mlp.gate != simd::Gate::kNone, key_bias = c.block.attention.key_bias;
  if (gated) return key_bias ? kGatedLayout : kGatedNoKeyBiasLayout;
  return key_bias ? kLayout : kNoKeyBiasLayout;
}

// ---------------------------------------------------------------------------------------------------------------------
// config.json

constexpr std::string_view kSettings[] = {
    "image_size",          "patch_size",        "num_channels", "hidden_size",   "num_hidden_layers",
    "num_attention_heads", "intermediate_size", "hidden_act",   "use_gated_mlp", "layer_norm_eps",
    "query_bias",          "key_bias",          "value_bias",   "proj_bias",     "mlp_bias",
    "num_register_tokens", "rope_theta"};

io::Json DefaultPreprocessor() {
  return {{"image_processor_type", "DINOv3ViTImageProcessor"}, {"size", {{"height", 224}, {"width", 224}}}};
}

std::string Architecture(const io::Fields& config) {
  const std::string model = std::string(kType.stem) + "Model";
  if (!config.Has("architectures")) return model;
  const io::Json& names = config.json()["architectures"];
  const bool known = names.is_array() && !names.empty() && names[0] == model;
  Require(known, "config.json: architecture {} is not supported ({} is)", names.dump(), model);
  return model;
}

Description DescribeHfDinov3(const io::Fields& config, const std::optional<io::Json>& preprocessor,
                             const io::TensorSet&) {
  Description description;
  VitConfig& c = description.config;
  c.family = Family::kHuggingFace;
  c.architecture = Architecture(config);
  std::tie(c.image_height, c.image_width) = config.Size("image_size", {224, 224});
  std::tie(c.patch_height, c.patch_width) = config.Size("patch_size", {16, 16});
  c.channels = config.Int("num_channels", 3);
  c.block.width = config.Int("hidden_size", 384);
  c.depth = config.Int("num_hidden_layers", 12);
  c.block.attention.heads = config.Int("num_attention_heads", 6);
  Require(c.block.attention.heads > 0 && c.block.width > 0 && c.block.width % c.block.attention.heads == 0,
          "config.json: hidden_size {} is no multiple of num_attention_heads {}", c.block.width,
          c.block.attention.heads);
  c.block.attention.head_width = c.block.width / c.block.attention.heads;
  c.block.mlp.width = config.Int("intermediate_size", 1536);
  c.block.mlp.activation = HfActivation(config.String("hidden_act", "gelu"));
  if (config.Bool("use_gated_mlp", false)) c.block.mlp.gate = simd::Gate::kFirst;
  c.block.norm.eps = config.Number("layer_norm_eps", kEps);
  c.block.layer_scale = true;
  ReadHfDinov3Biases(config, &c);
  c.registers = config.Int("num_register_tokens", 0);
  c.positions = Positions::kNone;
  c.position_prefix = 0;
  c.rotary = PatchRotary::kNormalised;
  c.rotary_base = config.Number("rope_theta", kBase);
  Require(c.rotary_base >= 1, "config.json: rope_theta is {}, expected 1 at least", c.rotary_base);
  c.rotary_halves = true;
  c.crops_to_patches = true;
  c.distillation_mean = false;
  SetHfPreprocessor(preprocessor, DefaultPreprocessor(), &description);
  return description;
}

constexpr const char* kPatches = "embeddings.patch_embeddings.weight";

std::string FirstBlock(const io::TensorSet& tensors) {
  return tensors.Find("model.layer.0.norm1.weight") ? "model.layer.{}." : "layer.{}.";
}

bool AreDinov3Tensors(const io::TensorSet& tensors) {
  const std::string query = fmt::format(fmt::runtime(FirstBlock(tensors)), 0) + "attention.q_proj.weight";
  return tensors.Find(kPatches) != nullptr && tensors.Find(query) != nullptr;
}

Description DescribeHfDinov3Tensors(const io::TensorSet& tensors, const ModelHints& given) {
  const std::string pattern = FirstBlock(tensors);
  const auto name = [&](int64_t block, std::string_view rest) {
    return fmt::format(fmt::runtime(pattern), block) + std::string(rest);
  };
  const auto has = [&](std::string_view rest) { return tensors.Find(name(0, rest)) != nullptr; };
  const int64_t width = Extent(tensors, kPatches, 0);
  int64_t depth = 0;
  while (tensors.Find(name(depth, "norm1.weight"))) ++depth;
  const bool gated = has("mlp.gate_proj.weight"), registers = tensors.Find("embeddings.register_tokens") != nullptr;
  const io::Json config = {{"model_type", kType.type},
                           {"hidden_size", width},
                           {"num_channels", Extent(tensors, kPatches, 1)},
                           {"patch_size", {Extent(tensors, kPatches, 2), Extent(tensors, kPatches, 3)}},
                           {"num_attention_heads", HeadsGiven(given, width, depth)},
                           {"num_hidden_layers", depth},
                           {"intermediate_size", Extent(tensors, name(0, "mlp.up_proj.weight"), 0)},
                           {"use_gated_mlp", gated},
                           {"hidden_act", gated ? "silu" : "gelu"},
                           {"query_bias", has("attention.q_proj.bias")},
                           {"key_bias", has("attention.k_proj.bias")},
                           {"value_bias", has("attention.v_proj.bias")},
                           {"proj_bias", has("attention.o_proj.bias")},
                           {"mlp_bias", has("mlp.up_proj.bias")},
                           {"num_register_tokens", registers ? Extent(tensors, "embeddings.register_tokens", 1) : 0},
                           {"image_size", {14 * Extent(tensors, kPatches, 2), 14 * Extent(tensors, kPatches, 3)}}};
  Description description = DescribeHfDinov3(io::Fields(config, "config.json"), {}, tensors);
  AddAssumed({{fmt::format("activation {}", gated ? "silu" : "gelu"), {"hidden_act"}},
              {fmt::format("LayerNorm's eps {}", kEps), {"layer_norm_eps"}},
              {fmt::format("rotary base {}", kBase), {"rope_theta"}},
              {"images of 14x14 patches", {"image_size"}}},
             given, &description.assumptions);
  return description;
}

// ---------------------------------------------------------------------------------------------------------------------
// Translation

void Refuse(const VitConfig& c) {
  const std::string_view who = kType.who;
  const auto has_no = [&](std::string_view what) { return fmt::format("{} has no {}", who, what); };
  Obstructions list = CommonObstructions(c, who);
  const Obstructions own = {
      {c.classes > 0, has_no("classifier")},
      {!c.class_token, has_no("model without a class token")},
      {c.distillation_token, has_no("distillation token")},
      {c.positions != Positions::kNone, has_no("learned position embeddings")},
      {c.rotary != PatchRotary::kNormalised, has_no("positions but rotary ones of coordinates from -1 to 1")},
      {c.pre_norm, has_no("LayerNorm before the blocks")},
      {!c.patch_bias, has_no("patch projection without a bias")},
      {!c.block.layer_scale, has_no("block without LayerScale")},
      {c.block.attention.qk_norm, has_no("LayerNorm on queries and keys")},
      {c.block.attention.output_norm, has_no("LayerNorm before the output projection")},
      {c.block.mlp.norm, has_no("LayerNorm inside the MLP")},
      {c.fc_norm, has_no("LayerNorm after pooling")},
      {!c.final_norm && !c.fc_norm, has_no("model without a final LayerNorm")},
      {c.pooler_width > 0, has_no("pooler")},
      {c.pool != Pool::kToken, fmt::format("{} gives the class token; this model {}", who, DescribePool(c.pool))},
  };
  list.insert(list.end(), own.begin(), own.end());
  RefuseObstructed(c, Family::kHuggingFace, list);
}

io::Json SizeToJson(int64_t height, int64_t width) {
  return height == width ? io::Json(height) : io::Json::array({height, width});
}

Translation TranslateToHfDinov3(const Description& description) {
  const VitConfig& c = description.config;
  Refuse(c);
  const nn::AttentionConfig& attention = c.block.attention;
  Translation translation;
  translation.names_dtype = true;
  translation.config = {{"architectures", {std::string(kType.stem) + "Model"}},
                        {"model_type", kType.type},
                        {"image_size", SizeToJson(c.image_height, c.image_width)},
                        {"patch_size", SizeToJson(c.patch_height, c.patch_width)},
                        {"num_channels", c.channels},
                        {"hidden_size", c.block.width},
                        {"num_hidden_layers", c.depth},
                        {"num_attention_heads", attention.heads},
                        {"intermediate_size", c.block.mlp.width},
                        {"hidden_act", HfName(c.block.mlp.activation)},
                        {"use_gated_mlp", c.block.mlp.gate != simd::Gate::kNone},
                        {"layer_norm_eps", c.block.norm.eps},
                        {"query_bias", attention.bias},
                        {"key_bias", attention.bias && attention.key_bias},
                        {"value_bias", attention.bias},
                        {"proj_bias", attention.projection_bias},
                        {"mlp_bias", c.block.mlp.bias},
                        {"num_register_tokens", c.registers},
                        {"rope_theta", c.rotary_base > 0 ? c.rotary_base : kBase}};
  translation.preprocessor = PreprocessToHuggingFace(description.preprocess, &translation.notes);
  return translation;
}

}  // namespace

constinit const FamilyRow kHfDinov3 = {
    .library = Family::kHuggingFace,
    .model_types = kModelTypes,
    .recognises = [](const io::Fields& config) { return HasModelType(config, kModelTypes); },
    .recognises_tensors = AreDinov3Tensors,
    .describe = DescribeHfDinov3,
    .known = kHfImageKeys,
    .describe_tensors = DescribeHfDinov3Tensors,
    .settings = kSettings,
    .preprocess_settings = kHfPreprocessKeys,
    .arguments = [](io::Json& config) -> io::Json& { return config; },
    .change_preprocess = ChangeHfPreprocess,
    .write_labels = WriteHfLabels,
    .holds =
        [](const VitConfig& c) {
          return c.family == Family::kHuggingFace ? c.architecture.starts_with(kType.stem)
                                                  : c.rotary != PatchRotary::kNone;
        },
    .layout = LayoutFor,
    .preprocess = PreprocessOfHf,
    .preprocess_known = kHfProcessorKeys,
    .translate = TranslateToHfDinov3,
};

}  // namespace qkv::model
