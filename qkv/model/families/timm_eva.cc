// timm's Eva: EVA, EVA02, DINOv3, the Perception Encoders (PE) and the RoPE ViTs. Configuration, tensor names,
// translation. Not here: the parts of config.json that all of timm's classes share (timm_vit.cc). Not supported: heads
// that share keys, LayerScale of attention alone, and rotary positions of three axes.
#include "qkv/model/families/timm_eva.h"

#include <algorithm>
#include <array>
#include <tuple>

#include "qkv/core/error.h"
#include "qkv/model/families/families.h"
#include "qkv/model/families/names_attention.h"
#include "qkv/model/families/preprocess_common.h"
#include "qkv/model/families/timm_registry.h"
#include "qkv/model/layout/tensor_names.h"

namespace qkv::model {
namespace {

// ---------------------------------------------------------------------------------------------------------------------
// Names of tensors: timm's, and those of DINOv3's and EVA-CLIP's authors, which timm reads. Those of VisionTransformer
// alone are for models of no known name with rotary positions of qkv's own.

constexpr NameRow kRows[] = {
    {"cls_token", "cls_token"},
    {"dist_token", "dist_token"},
    {"reg_token", "reg_token|storage_tokens"},
    {"pos_embed", "pos_embed"},
    {"rope.freqs", "rope.freqs"},
    {"patch_embed.proj", "patch_embed.proj"},
    {"norm_pre", "norm_pre"},
    {"blocks.{}.norm1", "blocks.{}.norm1"},
    {"blocks.{}.attn.qkv", "blocks.{}.attn.qkv|blocks.{}.attn.q_proj+blocks.{}.attn.k_proj+blocks.{}.attn.v_proj"},
    {"blocks.{}.attn.q_norm", "blocks.{}.attn.q_norm"},
    {"blocks.{}.attn.k_norm", "blocks.{}.attn.k_norm"},
    {"blocks.{}.attn.norm", "blocks.{}.attn.norm|blocks.{}.attn.inner_attn_ln"},
    {"blocks.{}.attn.proj", "blocks.{}.attn.proj"},
    {"blocks.{}.ls1.gamma", "blocks.{}.gamma_1|blocks.{}.ls1.gamma"},
    {"blocks.{}.norm2", "blocks.{}.norm2"},
    {"blocks.{}.mlp.fc1",
     "blocks.{}.mlp.fc1|blocks.{}.mlp.fc1_g+blocks.{}.mlp.fc1_x|blocks.{}.mlp.w12|blocks.{}.mlp.w1+blocks.{}.mlp.w2"},
    {"blocks.{}.mlp.norm", "blocks.{}.mlp.norm|blocks.{}.mlp.ffn_ln"},
    {"blocks.{}.mlp.fc2", "blocks.{}.mlp.fc2|blocks.{}.mlp.w3"},
    {"blocks.{}.ls2.gamma", "blocks.{}.gamma_2|blocks.{}.ls2.gamma"},
    {"norm", "norm"},
    {"attn_pool.latent", "attn_pool.latent"},
    {"attn_pool.q", "attn_pool.q"},
    {"attn_pool.kv", "attn_pool.kv"},
    {"attn_pool.proj", "attn_pool.proj"},
    {"attn_pool.norm", "attn_pool.norm"},
    {"attn_pool.mlp.fc1", "attn_pool.mlp.fc1"},
    {"attn_pool.mlp.fc2", "attn_pool.mlp.fc2"},
    {"fc_norm", "fc_norm"},
    {"projection", "head"},
    {"head", "head"},
    {"head_dist", "head_dist"},
};

constexpr NameRow kNoKeyBias[] = {
    {"blocks.{}.attn.qkv.bias",
     "blocks.{}.attn.q_bias+0+blocks.{}.attn.v_bias|blocks.{}.attn.q_proj.bias+0+blocks.{}.attn.v_proj.bias"},
};

// Eva packs a gate only if no norm follows it.
constexpr NameRow kNormedGate[] = {
    {"blocks.{}.mlp.fc1", "blocks.{}.mlp.fc1_g+blocks.{}.mlp.fc1_x|blocks.{}.mlp.w1+blocks.{}.mlp.w2"},
};

constexpr std::span<const NameRow> kTables[] = {kRows, kAttentionKindRows},
                                   kNoKeyBiasTables[] = {kNoKeyBias, kRows, kAttentionKindRows},
                                   kNormedGateTables[] = {kNormedGate, kRows, kAttentionKindRows},
                                   kNoKeyBiasNormedGateTables[] = {kNoKeyBias, kNormedGate, kRows, kAttentionKindRows};

// Tensors that older versions stored and computed anew, and those that only training reads.
constexpr std::string_view kIgnored[] = {"rope.pos_embed",     "rope.bands",       "rope.periods",   "rope.t_x",
                                         "rope.t_y",           "mask_token",       "rope.freqs_cos", "rope.freqs_sin",
                                         "*.rope.freqs_cos",   "*.rope.freqs_sin", "*.bias_mask",    "projectors.*",
                                         "rope_embed.periods", "local_cls_norm*"};
constexpr Layout kLayout = {kTables, kIgnored, {}}, kNoKeyBiasLayout = {kNoKeyBiasTables, kIgnored, {}},
                 kNormedGateLayout = {kNormedGateTables, kIgnored, {}},
                 kNoKeyBiasNormedGateLayout = {kNoKeyBiasNormedGateTables, kIgnored, {}};

const Layout& LayoutFor(const VitConfig& c) {
  const bool normed_gate = c.block.mlp.gate != simd::Gate::kNone && c.block.mlp.norm;
  if (c.block.attention.key_bias) return normed_gate ? kNormedGateLayout : kLayout;
  return normed_gate ? kNoKeyBiasNormedGateLayout : kNoKeyBiasLayout;
}

// ---------------------------------------------------------------------------------------------------------------------
// config.json

// The arguments of Eva that change the computation.
constexpr std::string_view kSettings[] = {"img_size",
                                          "patch_size",
                                          "in_chans",
                                          "num_classes",
                                          "global_pool",
                                          "embed_dim",
                                          "depth",
                                          "num_heads",
                                          "qkv_bias",
                                          "qkv_fused",
                                          "qk_norm",
                                          "mlp_ratio",
                                          "swiglu_mlp",
                                          "swiglu_align_to",
                                          "scale_mlp",
                                          "scale_attn_inner",
                                          "attn_type",
                                          "init_values",
                                          "use_post_norm",
                                          "class_token",
                                          "num_reg_tokens",
                                          "no_embed_class",
                                          "use_abs_pos_emb",
                                          "use_rot_pos_emb",
                                          "rope_type",
                                          "rope_grid_offset",
                                          "rope_grid_indexing",
                                          "rope_temperature",
                                          "rope_rotate_half",
                                          "ref_feat_shape",
                                          "use_pre_transformer_norm",
                                          "use_post_transformer_norm",
                                          "use_fc_norm",
                                          "attn_pool_num_heads",
                                          "attn_pool_mlp_ratio",
                                          "dynamic_img_size",
                                          "norm_eps"};

// Arguments of Eva that VisionTransformer lacks.
constexpr std::string_view kOwnArguments[] = {"use_rot_pos_emb", "use_abs_pos_emb",          "swiglu_mlp",
                                              "scale_mlp",       "scale_attn_inner",         "num_reg_tokens",
                                              "attn_type",       "use_pre_transformer_norm", "qkv_fused"};

void RefuseUnsupported(const io::Fields& args, const std::string& architecture) {
  static constexpr std::array<const char*, 3> kOff = {"attn_only_layer_scale", "gated_attn", "dynamic_img_pad"};
  for (const char* key : kOff) {
    Require(!args.Bool(key, false), "{}: {} is not supported", architecture, key);
  }
  Require(!args.Has("num_kv_heads"), "{}: num_kv_heads is not supported (heads have keys of their own)", architecture);
  const std::string norm = args.String("norm_layer", "layernorm");
  Require(norm == "layernorm" || norm == "LayerNorm", "{}: norm_layer \"{}\" is not supported (only \"layernorm\")",
          architecture, norm);
}

void ParseRotary(const io::Fields& args, const std::string& architecture, VitConfig* c) {
  if (!args.Bool("use_rot_pos_emb", false)) return;
  const std::string type = args.String("rope_type", "cat"), indexing = args.String("rope_grid_indexing", "ij");
  Require(indexing == "ij" || indexing == "xy", "{}: rope_grid_indexing \"{}\" is not one of ij, xy", args.where(),
          indexing);
  c->rotary_base = args.Number("rope_temperature", 10000);
  Require(c->rotary_base >= 1, "{}: rope_temperature is {}, expected 1 at least", args.where(), c->rotary_base);
  c->rotary_halves = args.Bool("rope_rotate_half", false);
  c->rotary_columns_first = indexing == "xy";
  c->rotary_offset = args.Number("rope_grid_offset", 0);
  c->rotary_scales = args.Has("ref_feat_shape");
  if (type == "cat") {
    c->rotary = PatchRotary::kPatches;
    if (c->rotary_scales) std::tie(c->rotary_grid_height, c->rotary_grid_width) = args.Size("ref_feat_shape", {});
    return;
  }
  Require(type == "dinov3" || type == "mixed", "{}: rope_type \"{}\" is not supported (cat, dinov3 and mixed are)",
          architecture, type);
  c->rotary = type == "dinov3" ? PatchRotary::kNormalised : PatchRotary::kMixed;
  // Arguments that do not reach these two, or that no model has.
  Require(c->rotary == PatchRotary::kMixed || (indexing == "ij" && c->rotary_offset == 0),
          "{}: rope_grid_indexing and rope_grid_offset are not supported with rope_type \"dinov3\"", architecture);
  Require(c->rotary == PatchRotary::kNormalised || !c->rotary_halves,
          "{}: rope_type \"mixed\" requires rope_rotate_half false", args.where());
  c->rotary_offset = 0;
  c->rotary_scales = true;
}

void ParseMlp(const io::Fields& args, VitConfig* c) {
  nn::MlpConfig& mlp = c->block.mlp;
  mlp.width = HiddenWidth(c->block.width, args.Number("mlp_ratio", 4));
  mlp.norm = args.Bool("scale_mlp", false);
  if (!args.Bool("swiglu_mlp", false)) return;
  mlp.gate = simd::Gate::kFirst;
  mlp.activation = simd::Activation::kSilu;
  const int64_t multiple = args.Int("swiglu_align_to", 0);
  Require(multiple >= 0 && multiple <= kMaxExtent, "{}: swiglu_align_to is {}", args.where(), multiple);
  if (multiple > 0) mlp.width = (mlp.width + multiple - 1) / multiple * multiple;
}

void ParsePooling(const io::Fields& args, VitConfig* c) {
  ParseTimmPool(args, "avg", c);
  c->fc_norm = args.Bool("use_fc_norm", args.String("global_pool", "avg") == "avg");
  c->final_norm = args.Bool("use_post_transformer_norm", !c->fc_norm);
  if (c->pool != Pool::kMap) return;
  Require(c->block.mlp.activation == simd::Activation::kGelu,
          "{}: attention pooling with a gated MLP in the blocks is not supported", args.where());
  c->pool_prefix = true;
  c->map_heads = args.Int("attn_pool_num_heads", c->block.attention.heads);
  c->map_mlp_width = HiddenWidth(c->block.width, args.Number("attn_pool_mlp_ratio", args.Number("mlp_ratio", 4)));
}

}  // namespace

void FitToAuthorsTensors(const io::TensorSet& tensors, VitConfig* c) {
  // DINOv2's: the class token has a position, which timm adds to it when it converts.
  if (tensors.Find("register_tokens") && c->class_token && c->registers > 0) c->position_prefix = 1;
  if (!tensors.Find("storage_tokens") || !tensors.Find("blocks.0.attn.qkv.bias")) return;
  // DINOv3's: biases of queries, keys and values in one, of which those of keys are masked; they must be zero.
  c->block.attention.bias = c->block.attention.key_bias = true;
  for (int64_t block = 0; block < c->depth; ++block) {
    const io::StoredTensor* stored = tensors.Find(fmt::format("blocks.{}.attn.qkv.bias", block));
    if (stored == nullptr) continue;
    const Tensor<float> bias = io::Convert<float>(*stored);
    const int64_t third = bias.size() / 3;
    Require(std::all_of(bias.data() + third, bias.data() + 2 * third, [](float b) { return b == 0; }),
            "checkpoint: {} has biases of keys, which DINOv3 masks; expected zeros", stored->name);
  }
}

bool IsTimmEva(const io::Fields& config) {
  const std::string_view known = TimmClass(config.String("architecture", ""));
  if (!known.empty()) return known == kTimmEvaClass;
  const io::Fields args = config.Object("model_args");
  return std::ranges::any_of(kOwnArguments, [&](std::string_view key) { return args.Has(key); });
}

VitConfig ParseTimmEva(const io::Fields& args, const std::string& architecture) {
  RefuseUnsupported(args, architecture);
  VitConfig c;
  c.architecture = architecture;
  ParseTimmShape(args, &c);
  nn::AttentionConfig& attention = c.block.attention;
  attention.bias = args.Bool("qkv_bias", true);
  const std::string type = args.String("attn_type", "eva");
  Require(type == "eva" || type == "rope", "{}: attn_type \"{}\" is not one of eva, rope", args.where(), type);
  attention.key_bias = !attention.bias || type == "rope";  // EvaAttention has none
  attention.qk_norm = args.Bool("qk_norm", false);
  attention.output_norm = args.Bool("scale_attn_inner", false);
  ParseMlp(args, &c);
  c.block.norm.eps = args.Number("norm_eps", 1e-6);
  if (args.Bool("use_post_norm", false)) c.block.norm_place = nn::NormPlace::kOutput;
  c.block.layer_scale = args.Has("init_values") && c.block.norm_place == nn::NormPlace::kBefore;  // as timm
  c.classes = std::max<int64_t>(0, args.Int("num_classes", 1000));

  c.class_token = args.Bool("class_token", true);
  c.registers = args.Int("num_reg_tokens", 0);
  c.positions = args.Bool("use_abs_pos_emb", true) ? Positions::kLearned : Positions::kNone;
  c.position_prefix = args.Bool("no_embed_class", false) ? 0 : c.prefix();
  ParseRotary(args, architecture, &c);
  c.pre_norm = args.Bool("use_pre_transformer_norm", false);
  c.patch_bias = !c.pre_norm;
  ParsePooling(args, &c);
  return c;
}

namespace {

// ---------------------------------------------------------------------------------------------------------------------
// Tensors without a config.json: they do not tell how positions rotate

bool AreEvaTensors(const io::TensorSet& tensors) {
  if (!tensors.Find("patch_embed.proj.weight") || !tensors.Find("blocks.0.attn.proj.weight")) return false;
  return std::ranges::any_of(std::array{"blocks.0.attn.q_bias", "blocks.0.gamma_1", "blocks.0.attn.q_proj.weight",
                                        "rope.freqs", "storage_tokens"},
                             [&](const char* name) { return tensors.Find(name) != nullptr; });
}

Description DescribeEvaTensors(const io::TensorSet&, const ModelHints&) {
  Fail(
      "checkpoint: there is no config.json, and the tensors of timm's Eva do not tell how positions rotate queries and "
      "keys; give --architecture NAME, such as vit_small_patch16_dinov3, or put its config.json beside the weights");
}

// ---------------------------------------------------------------------------------------------------------------------
// Translation: an entry of the registry for the norms' eps, and all other arguments

struct Entry {
  std::string_view name;
  double eps;
};
constexpr Entry kEntries[] = {{"vit_small_patch16_rope_224", 1e-6}, {"vit_small_patch16_dinov3", 1e-5}};

void Refuse(const VitConfig& c) {
  const bool gated = c.block.mlp.gate != simd::Gate::kNone;
  Obstructions list = CommonObstructions(c, "timm's Eva");
  const auto has_no = [&](std::string_view what) { return fmt::format("timm's Eva has no {}", what); };
  const Obstructions more = {
      {c.pre_norm && c.patch_bias, has_no("bias of the patch projection where a LayerNorm follows it")},
      {!c.pre_norm && !c.patch_bias, has_no("patch projection without a bias where no LayerNorm follows it")},
      {!c.block.attention.projection_bias, has_no("output projection without a bias")},
      {!c.block.mlp.bias, has_no("MLP without biases")},
      {c.block.mlp.activation != (gated ? simd::Activation::kSilu : simd::Activation::kGelu),
       fmt::format("{} in {} MLP", has_no(Name(c.block.mlp.activation)), gated ? "a gated" : "an ungated")},
      {c.distillation_token, has_no("distillation token")},
      {c.pool == Pool::kTokenAndMean, has_no("classifier that reads class token and mean side by side")},
      {c.pool == Pool::kToken && !c.class_token, has_no("pooling by a register")},
      {c.pool == Pool::kMap && !c.pool_prefix, has_no("attention pooling of the patches alone")},
      {c.pool != Pool::kMap && c.pool_prefix && c.prefix() > 0, has_no("pooling of tokens before the patches")},
      {c.pool == Pool::kMap && gated, has_no("attention pooling beside gated MLPs that qkv reads back")},
      {c.pooler_width > 0, has_no("pooler (a dense layer on the class token)")},
  };
  list.insert(list.end(), more.begin(), more.end());
  RefuseObstructed(c, Family::kTimm, list);
}

void WriteRotary(const VitConfig& c, io::Json* args) {
  (*args)["use_rot_pos_emb"] = c.rotary != PatchRotary::kNone;
  if (c.rotary == PatchRotary::kNone) return;
  const bool patches = c.rotary == PatchRotary::kPatches, normalised = c.rotary == PatchRotary::kNormalised;
  (*args)["rope_type"] = patches ? "cat" : normalised ? "dinov3" : "mixed";
  (*args)["rope_temperature"] = c.rotary_base > 0 ? c.rotary_base : normalised ? 100 : nn::kUsualRotaryBase;
  (*args)["rope_rotate_half"] = c.rotary_halves;
  (*args)["rope_grid_indexing"] = c.rotary_columns_first ? "xy" : "ij";
  (*args)["rope_grid_offset"] = c.rotary_offset;
  (*args)["ref_feat_shape"] = nullptr;
  if (!patches || !c.rotary_scales) return;
  const bool own = c.rotary_grid_height > 0;
  (*args)["ref_feat_shape"] = {own ? c.rotary_grid_height : c.grid_height(),
                               own ? c.rotary_grid_width : c.grid_width()};
}

io::Json Arguments(const VitConfig& c) {
  const nn::AttentionConfig& attention = c.block.attention;
  io::Json args = {{"img_size", io::Json::array({c.image_height, c.image_width})},
                   {"patch_size", TimmSize(c.patch_height, c.patch_width)},
                   {"in_chans", c.channels},
                   {"embed_dim", c.block.width},
                   {"depth", c.depth},
                   {"num_heads", attention.heads},
                   {"mlp_ratio", TimmMlpRatio(c.block.mlp.width, c.block.width)},
                   {"num_classes", c.classes},
                   {"global_pool", Name(c.pool)},
                   {"qkv_bias", attention.bias},
                   {"qkv_fused", true},
                   {"attn_type", attention.bias && !attention.key_bias ? "eva" : "rope"},
                   {"qk_norm", attention.qk_norm},
                   {"scale_attn_inner", attention.output_norm},
                   {"swiglu_mlp", c.block.mlp.gate != simd::Gate::kNone},
                   {"swiglu_align_to", 0},
                   {"scale_mlp", c.block.mlp.norm},
                   {"init_values", nullptr},
                   {"class_token", c.class_token},
                   {"num_reg_tokens", c.registers},
                   {"no_embed_class", c.prefix() > 0 && c.position_prefix == 0},
                   {"use_abs_pos_emb", c.positions == Positions::kLearned},
                   {"use_pre_transformer_norm", c.pre_norm},
                   {"use_post_transformer_norm", c.final_norm},
                   {"use_fc_norm", c.fc_norm}};
  if (c.block.layer_scale) args["init_values"] = 1e-5;  // initial value for training; the tensors replace it
  if (c.pool == Pool::kMap) {
    args["attn_pool_num_heads"] = c.pool_heads();
    args["attn_pool_mlp_ratio"] = TimmMlpRatio(c.map_mlp_width, c.block.width);
  }
  WriteRotary(c, &args);
  return args;
}

Translation TranslateToTimmEva(const Description& description) {
  const VitConfig& c = description.config;
  Refuse(c);
  const Entry& entry = c.block.norm.eps == kEntries[1].eps ? kEntries[1] : kEntries[0];
  Translation result;
  result.config = {{"architecture", entry.name},
                   {"num_classes", c.classes},
                   {"num_features", c.block.width},
                   {"global_pool", Name(c.pool)},
                   {"model_args", Arguments(c)}};
  EndTimmTranslation(description, entry.eps, &result);
  return result;
}

bool HoldsModel(const VitConfig& c) {
  const std::string_view known = c.family == Family::kTimm ? TimmClass(c.architecture) : "";
  if (!known.empty()) return known == kTimmEvaClass;
  return c.rotary != PatchRotary::kNone || !c.block.attention.key_bias;
}

}  // namespace

constinit const FamilyRow kTimmEva = TimmRow({
    .recognises = [](const io::Fields& config) { return IsTimmConfig(config) && IsTimmEva(config); },
    .recognises_tensors = AreEvaTensors,
    .describe_tensors = DescribeEvaTensors,
    .settings = kSettings,
    .holds = HoldsModel,
    .layout = LayoutFor,
    .translate = TranslateToTimmEva,
});

}  // namespace qkv::model
