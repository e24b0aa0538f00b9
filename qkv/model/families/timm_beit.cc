// timm's Beit: BEiT and BEiT v2. Configuration, tensor names, translation. Not here: the parts of config.json that all
// of timm's classes share (timm_vit.cc).
#include "qkv/model/families/timm_beit.h"

#include <algorithm>
#include <array>

#include "qkv/core/error.h"
#include "qkv/model/families/describe.h"
#include "qkv/model/families/families.h"
#include "qkv/model/families/from_tensors.h"
#include "qkv/model/families/names_attention.h"
#include "qkv/model/families/preprocess_common.h"
#include "qkv/model/families/timm_eva.h"
#include "qkv/model/families/timm_registry.h"
#include "qkv/model/layout/tensor_names.h"

namespace qkv::model {
namespace {

// ---------------------------------------------------------------------------------------------------------------------
// Names of tensors

constexpr NameRow kRows[] = {
    {"cls_token", "cls_token"},
    {"pos_embed", "pos_embed"},
    {"rel_pos_bias.relative_position_bias_table", "rel_pos_bias.relative_position_bias_table"},
    {"patch_embed.proj", "patch_embed.proj"},
    {"blocks.{}.norm1", "blocks.{}.norm1"},
    {"blocks.{}.attn.qkv", "blocks.{}.attn.qkv"},
    {"blocks.{}.attn.qkv.bias", "blocks.{}.attn.q_bias+0+blocks.{}.attn.v_bias"},
    {"blocks.{}.attn.relative_position_bias_table", "blocks.{}.attn.relative_position_bias_table"},
    {"blocks.{}.attn.proj", "blocks.{}.attn.proj"},
    {"blocks.{}.ls1.gamma", "blocks.{}.gamma_1"},
    {"blocks.{}.norm2", "blocks.{}.norm2"},
    {"blocks.{}.mlp.fc1", "blocks.{}.mlp.fc1"},
    {"blocks.{}.mlp.norm", "blocks.{}.mlp.norm"},
    {"blocks.{}.mlp.fc2", "blocks.{}.mlp.fc2"},
    {"blocks.{}.ls2.gamma", "blocks.{}.gamma_2"},
    {"norm", "norm"},
    {"fc_norm", "fc_norm"},
    {"head", "head"},
};

constexpr NameRow kGate[] = {
    {"blocks.{}.mlp.fc1", "blocks.{}.mlp.fc1_g+blocks.{}.mlp.fc1_x"},
};

constexpr std::span<const NameRow> kTables[] = {kRows, kAttentionKindRows},
                                   kGatedTables[] = {kGate, kRows, kAttentionKindRows};

// Tensors that only pretraining reads, and the indices into the tables, which older versions stored.
constexpr std::string_view kIgnored[] = {"mask_token", "*.relative_position_index"};
constexpr Layout kLayout = {kTables, kIgnored, {}}, kGatedLayout = {kGatedTables, kIgnored, {}};

const Layout& LayoutFor(const VitConfig& c) { return c.block.mlp.gate == simd::Gate::kNone ? kLayout : kGatedLayout; }

// ---------------------------------------------------------------------------------------------------------------------
// config.json

// The arguments of Beit that change the computation.
constexpr std::string_view kSettings[] = {
    "img_size",    "patch_size",  "in_chans",        "num_classes",      "global_pool", "embed_dim",
    "depth",       "num_heads",   "qkv_bias",        "mlp_ratio",        "swiglu_mlp",  "scale_mlp",
    "init_values", "use_fc_norm", "use_abs_pos_emb", "use_rel_pos_bias", "norm_eps",    "use_shared_rel_pos_bias"};

// Arguments that no other class has.
constexpr const char* kOwnArguments[] = {"use_rel_pos_bias", "use_shared_rel_pos_bias"};

}  // namespace

bool IsTimmBeit(const io::Fields& config) {
  const std::string_view known = TimmClass(config.String("architecture", ""));
  if (!known.empty()) return known == kTimmBeitClass;
  const io::Fields args = config.Object("model_args");
  return std::ranges::any_of(kOwnArguments, [&](const char* key) { return args.Has(key); });
}

VitConfig ParseTimmBeit(const io::Fields& args, const std::string& architecture) {
  const std::string norm = args.String("norm_layer", "LayerNorm");
  Require(norm == "layernorm" || norm == "LayerNorm", "{}: norm_layer \"{}\" is not supported (only \"layernorm\")",
          architecture, norm);
  VitConfig c;
  c.architecture = architecture;
  ParseTimmShape(args, &c);
  c.block.attention.bias = args.Bool("qkv_bias", true);
  c.block.attention.key_bias = !c.block.attention.bias;
  c.block.mlp.width = HiddenWidth(c.block.width, args.Number("mlp_ratio", 4));
  c.block.mlp.norm = args.Bool("scale_mlp", false);
  if (args.Bool("swiglu_mlp", false)) {
    c.block.mlp.gate = simd::Gate::kFirst;
    c.block.mlp.activation = simd::Activation::kSilu;
  }
  c.block.norm.eps = args.Number("norm_eps", 1e-6);
  c.block.layer_scale = args.Number("init_values", 0) != 0;
  c.classes = std::max<int64_t>(0, args.Int("num_classes", 1000));
  c.positions = args.Bool("use_abs_pos_emb", true) ? Positions::kLearned : Positions::kNone;
  c.shared_biases = args.Bool("use_shared_rel_pos_bias", false);
  c.bias_interpolation = BiasInterpolation::kGeometric;
  if (args.Bool("use_rel_pos_bias", false)) c.block.attention.bias_rows = RelativeBiasRows(c);
  ParseTimmPool(args, "avg", &c);
  Require(c.pool == Pool::kToken || c.pool == Pool::kMean, "{}: global_pool \"{}\" is not one of avg, token",
          args.where(), Name(c.pool));
  c.fc_norm = args.Bool("use_fc_norm", args.String("global_pool", "avg") == "avg");
  c.final_norm = !c.fc_norm;
  return c;
}

namespace {

// ---------------------------------------------------------------------------------------------------------------------
// Tensors without a config.json

constexpr const char* kOwnTable = "blocks.0.attn.relative_position_bias_table";
constexpr const char* kSharedTable = "rel_pos_bias.relative_position_bias_table";

bool AreBeitTensors(const io::TensorSet& tensors) {
  return tensors.Find("patch_embed.proj.weight") && (tensors.Find(kOwnTable) || tensors.Find(kSharedTable));
}

Description DescribeBeitTensors(const io::TensorSet& tensors, const ModelHints& given) {
  const auto has = [&](std::string_view name) { return tensors.Find(name) != nullptr; };
  const auto extent = [&](const std::string& name, int axis) { return Extent(tensors, name, axis); };
  const int64_t width = extent("patch_embed.proj.weight", 0), patch_h = extent("patch_embed.proj.weight", 2),
                patch_w = extent("patch_embed.proj.weight", 3);
  const char* const table = has(kOwnTable) ? kOwnTable : kSharedTable;
  int64_t depth = 0;
  while (has(fmt::format("blocks.{}.norm1.weight", depth))) ++depth;
  const int64_t side = SideOfRelativeBiases(extent(table, 0));
  const bool gated = has("blocks.0.mlp.fc1_g.weight");
  const int64_t hidden = extent("blocks.0.mlp.fc2.weight", 1);
  io::Json args = {{"embed_dim", width},
                   {"in_chans", extent("patch_embed.proj.weight", 1)},
                   {"patch_size", {patch_h, patch_w}},
                   {"img_size", {side * patch_h, side * patch_w}},
                   {"depth", depth},
                   {"num_heads", extent(table, 1)},
                   {"num_classes", has("head.weight") ? extent("head.weight", 0) : 0},
                   {"global_pool", has("fc_norm.weight") ? "avg" : "token"},
                   {"use_fc_norm", has("fc_norm.weight")},
                   {"qkv_bias", has("blocks.0.attn.q_bias")},
                   {"use_abs_pos_emb", has("pos_embed")},
                   {"use_rel_pos_bias", has(kOwnTable)},
                   {"use_shared_rel_pos_bias", has(kSharedTable)},
                   {"swiglu_mlp", gated},
                   {"scale_mlp", has("blocks.0.mlp.norm.weight")},
                   {"init_values", has("blocks.0.gamma_1") ? 0.1 : 0.0}};
  // Slightly more than the ratio, because timm multiplies it back and truncates.
  args["mlp_ratio"] = (static_cast<double>(hidden) + 1e-3) / static_cast<double>(std::max<int64_t>(1, width));
  io::Json config = {{"architecture", "beit"}, {"model_args", args}};
  const auto channels = static_cast<size_t>(std::clamp<int64_t>(args["in_chans"].get<int64_t>(), 1, 4));
  config["pretrained_cfg"] = {{"crop_pct", 0.9},
                              {"interpolation", "bicubic"},
                              {"mean", std::vector<double>(channels, 0.5)},
                              {"std", std::vector<double>(channels, 0.5)}};
  Description description = DescribeTimm(config);
  std::vector<Assumed> assumed = {{"LayerNorm's eps 1e-06", {"norm_eps"}},
                                  {"images are resized as timm does by default (bicubic)", {"interpolation"}}};
  if (given.crop_pct == 0) assumed.push_back({"0.9 of their side is kept (crop)", {"crop_pct"}});
  AddAssumed(assumed, given, &description.assumptions);
  return description;
}

// ---------------------------------------------------------------------------------------------------------------------
// Translation: an entry of the registry, and all arguments

constexpr std::string_view kEntry = "beit_base_patch16_224";
constexpr double kEps = 1e-6;

void Refuse(const Description& description) {
  const VitConfig& c = description.config;
  const bool gated = c.block.mlp.gate != simd::Gate::kNone;
  Obstructions list = CommonObstructions(c, "timm's Beit");
  const auto has_no = [&](std::string_view what) { return fmt::format("timm's Beit has no {}", what); };
  const Obstructions more = {
      {!c.class_token || c.prefix() != 1, has_no("tokens before the patches but a class token")},
      {c.rotary != PatchRotary::kNone, has_no("rotary positions")},
      {c.pre_norm, has_no("LayerNorm before the blocks")},
      {!c.patch_bias, has_no("patch projection without a bias")},
      {!c.block.attention.projection_bias, has_no("output projection without a bias")},
      {!c.block.mlp.bias, has_no("MLP without biases")},
      {c.block.attention.qk_norm, has_no("LayerNorm on queries and keys")},
      {c.block.attention.output_norm, has_no("LayerNorm before the output projection")},
      {c.block.mlp.activation != (gated ? simd::Activation::kSilu : simd::Activation::kGelu),
       fmt::format("{} in {} MLP", has_no(Name(c.block.mlp.activation)), gated ? "a gated" : "an ungated")},
      {c.pool != Pool::kToken && c.pool != Pool::kMean,
       fmt::format("timm's Beit takes the class token or the mean of the patches; this model {}",
                   c.pool == Pool::kTokenAndMean ? "reads both" : "pools otherwise")},
      {c.pool == Pool::kMean && c.pool_prefix, has_no("mean of the class token too")},
      {c.final_norm == c.fc_norm, has_no(c.fc_norm ? "two norms after the blocks" : "model without a final LayerNorm")},
      {c.pooler_width > 0, has_no("pooler (a dense layer on the class token)")},
      {c.family == Family::kHuggingFace && c.grid_height() != c.grid_width(),
       "transformers reads the tables of a grid that is not square in another order"},
      {!PreprocessesToTrainedSize(description), has_no("images of another size than the model's")},
  };
  list.insert(list.end(), more.begin(), more.end());
  RefuseObstructed(c, Family::kTimm, list);
}

Translation TranslateToTimmBeit(const Description& description) {
  const VitConfig& c = description.config;
  Refuse(description);
  io::Json args = {{"img_size", io::Json::array({c.image_height, c.image_width})},
                   {"patch_size", TimmSize(c.patch_height, c.patch_width)},
                   {"in_chans", c.channels},
                   {"embed_dim", c.block.width},
                   {"depth", c.depth},
                   {"num_heads", c.block.attention.heads},
                   {"mlp_ratio", TimmMlpRatio(c.block.mlp.width, c.block.width)},
                   {"num_classes", c.classes},
                   {"global_pool", Name(c.pool)},
                   {"qkv_bias", c.block.attention.bias},
                   {"swiglu_mlp", c.block.mlp.gate != simd::Gate::kNone},
                   {"scale_mlp", c.block.mlp.norm},
                   {"init_values", nullptr},
                   {"use_abs_pos_emb", c.positions == Positions::kLearned},
                   {"use_rel_pos_bias", c.block.attention.bias_rows > 0},
                   {"use_shared_rel_pos_bias", c.shared_biases},
                   {"use_fc_norm", c.fc_norm}};
  if (c.block.layer_scale) args["init_values"] = 0.1;  // initial value for training; the tensors replace it
  Translation result;
  result.config = {{"architecture", kEntry},
                   {"num_classes", c.classes},
                   {"num_features", c.block.width},
                   {"global_pool", Name(c.pool)},
                   {"model_args", std::move(args)}};
  EndTimmTranslation(description, kEps, &result);
  return result;
}

bool HoldsModel(const VitConfig& c) {
  const std::string_view known = c.family == Family::kTimm ? TimmClass(c.architecture) : "";
  return known.empty() ? c.has_relative_biases() : known == kTimmBeitClass;
}

}  // namespace

constinit const FamilyRow kTimmBeit = TimmRow({
    .recognises = [](const io::Fields& config) { return IsTimmConfig(config) && IsTimmBeit(config); },
    .recognises_tensors = AreBeitTensors,
    .describe_tensors = DescribeBeitTensors,
    .settings = kSettings,
    .holds = HoldsModel,
    .layout = LayoutFor,
    .translate = TranslateToTimmBeit,
});

}  // namespace qkv::model
