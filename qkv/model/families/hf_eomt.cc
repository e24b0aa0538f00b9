// Hugging Face transformers: EoMT, which finds masks of objects and regions, with DINOv2 (with registers) or DINOv3
// inside. Queries precede all other tokens there and follow the registers here, which changes no output but the order
// of tokens. Attention limited by earlier masks, which only training uses, is refused.
#include <algorithm>

#include "qkv/core/error.h"
#include "qkv/model/families/families.h"
#include "qkv/model/families/from_tensors.h"
#include "qkv/model/families/hf_common.h"
#include "qkv/model/families/names_attention.h"
#include "qkv/model/families/preprocess_common.h"
#include "qkv/model/layout/tensor_names.h"

namespace qkv::model {
namespace {

constexpr std::string_view kEomt = "eomt", kEomtDinov3 = "eomt_dinov3";
constexpr std::string_view kModelTypes[] = {kEomt, kEomtDinov3};
constexpr double kBase = 100;  // default of EomtDinov3Config

// ---------------------------------------------------------------------------------------------------------------------
// Names of tensors

constexpr NameRow kHeads[] = {
    {"query_token", "query.weight"},
    {"pos_embed", "embeddings.position_embeddings.weight"},
    {"mask_class", "class_predictor"},
    {"mask_head.0", "mask_head.fc1"},
    {"mask_head.1", "mask_head.fc2"},
    {"mask_head.2", "mask_head.fc3"},
    {"doubling.0.expand", "upscale_block.block.0.conv1"},
    {"doubling.0.smooth", "upscale_block.block.0.conv2"},
    {"doubling.0.norm", "upscale_block.block.0.layernorm2d"},
    {"doubling.1.expand", "upscale_block.block.1.conv1"},
    {"doubling.1.smooth", "upscale_block.block.1.conv2"},
    {"doubling.1.norm", "upscale_block.block.1.layernorm2d"},
    {"doubling.2.expand", "upscale_block.block.2.conv1"},
    {"doubling.2.smooth", "upscale_block.block.2.conv2"},
    {"doubling.2.norm", "upscale_block.block.2.layernorm2d"},
    {"doubling.3.expand", "upscale_block.block.3.conv1"},
    {"doubling.3.smooth", "upscale_block.block.3.conv2"},
    {"doubling.3.norm", "upscale_block.block.3.layernorm2d"},
};

constexpr NameRow kBlocks[] = {
    {"blocks.{}.norm1", "layers.{}.norm1"},
    {"blocks.{}.attn.qkv", "layers.{}.attention.q_proj+layers.{}.attention.k_proj+layers.{}.attention.v_proj"},
    {"blocks.{}.attn.proj", "layers.{}.attention.out_proj|layers.{}.attention.o_proj"},
    {"blocks.{}.ls1.gamma", "layers.{}.layer_scale1.lambda1"},
    {"blocks.{}.norm2", "layers.{}.norm2"},
    {"blocks.{}.mlp.fc1", "layers.{}.mlp.fc1|layers.{}.mlp.up_proj"},
    {"blocks.{}.mlp.fc2", "layers.{}.mlp.fc2|layers.{}.mlp.down_proj"},
    {"blocks.{}.ls2.gamma", "layers.{}.layer_scale2.lambda1"},
};

constexpr NameRow kGated[] = {
    {"blocks.{}.mlp.fc1", "layers.{}.mlp.weights_in|layers.{}.mlp.gate_proj+layers.{}.mlp.up_proj"},
    {"blocks.{}.mlp.fc2", "layers.{}.mlp.weights_out|layers.{}.mlp.down_proj"},
};

constexpr NameRow kNoKeyBias[] = {
    {"blocks.{}.attn.qkv.bias", "layers.{}.attention.q_proj.bias+0+layers.{}.attention.v_proj.bias"},
};

constexpr NameRow kDinov3Patches[] = {{"patch_embed.proj", "embeddings.patch_embeddings"}};

// Tensors that only training reads; attn_mask_probs is checked by RequireNoMasking.
constexpr std::string_view kProbabilities = "attn_mask_probs";
constexpr std::string_view kIgnored[] = {"criterion.*", kProbabilities};

constexpr std::span<const NameRow> kTables[] = {kHeads, kBlocks, kHfRows, kAttentionKindRows},
                                   kGatedTables[] = {kGated, kHeads, kBlocks, kHfRows, kAttentionKindRows};
constexpr std::span<const NameRow> kDinov3Tables[] = {kDinov3Patches, kHeads, kBlocks, kHfRows, kAttentionKindRows},
                                   kDinov3GatedTables[] = {kDinov3Patches, kGated,  kHeads,
                                                           kBlocks,        kHfRows, kAttentionKindRows};
constexpr std::span<const NameRow> kDinov3NoKeyBiasTables[] = {kNoKeyBias, kDinov3Patches, kHeads,
                                                               kBlocks,    kHfRows,        kAttentionKindRows},
                                   kDinov3GatedNoKeyBiasTables[] = {
                                       kNoKeyBias, kDinov3Patches,    kGated, kHeads, kBlocks,
                                       kHfRows,    kAttentionKindRows};

constexpr Layout kLayout = {kTables, kIgnored, {}}, kGatedLayout = {kGatedTables, kIgnored, {}},
                 kDinov3Layout = {kDinov3Tables, kIgnored, {}}, kDinov3GatedLayout = {kDinov3GatedTables, kIgnored, {}},
                 kDinov3NoKeyBiasLayout = {kDinov3NoKeyBiasTables, kIgnored, {}},
                 kDinov3GatedNoKeyBiasLayout = {kDinov3GatedNoKeyBiasTables, kIgnored, {}};

const Layout& LayoutFor(const VitConfig& c) {
  const bool gated = c.block.mlp.gate != simd::Gate::kNone;
  if (c.rotary == PatchRotary::kNone) return gated ? kGatedLayout : kLayout;
  if (c.block.attention.key_bias) return gated ? kDinov3GatedLayout : kDinov3Layout;
  return gated ? kDinov3GatedNoKeyBiasLayout : kDinov3NoKeyBiasLayout;
}

// ---------------------------------------------------------------------------------------------------------------------
// config.json

constexpr std::string_view kSettings[] = {
    "image_size",          "patch_size",    "num_channels",       "hidden_size", "num_hidden_layers",
    "num_attention_heads", "mlp_ratio",     "intermediate_size",  "hidden_act",  "layer_norm_eps",
    "use_swiglu_ffn",      "use_gated_mlp", "query_bias",         "key_bias",    "value_bias",
    "proj_bias",           "mlp_bias",      "rope_parameters",    "num_queries", "num_blocks",
    "num_upscale_blocks",  "num_labels",    "num_register_tokens"};

// Two thirds, rounded up to a multiple of 8.
int64_t SwiGluWidth(int64_t hidden) { return (hidden * 2 / 3 + 7) / 8 * 8; }

// In a block of this probability above 0, transformers lets each query see only the patches of the mask that it would
// make there: with a probability below 1 at random, and without the tensor in all blocks.
void RequireNoMasking(const io::TensorSet& tensors, int64_t blocks) {
  if (tensors.tensors().empty()) return;  // a configuration alone
  const io::StoredTensor* const stored = tensors.Find(kProbabilities);
  Require(stored != nullptr,
          "checkpoint: there is no {}; without it transformers limits the attention of each query to its mask, which "
          "is not supported: add zeros of shape [{}] if the model was trained to its end",
          kProbabilities, blocks);
  Require(stored->shape == Shape({blocks}), "checkpoint: {} is {}, expected [{}]", kProbabilities, stored->shape,
          blocks);
  const Tensor<double> probabilities = io::Convert<double>(*stored);
  for (const double probability : probabilities.span()) {
    Require(probability == 0,
            "checkpoint: {} holds {}, expected 0: attention of queries that is limited to their masks, as in training, "
            "is not supported; train until it is 0",
            kProbabilities, probability);
  }
}

io::Json WithDefaults(const io::Json& json) {
  io::Json filled = {{"hidden_size", 1024},       {"num_hidden_layers", 24}, {"num_attention_heads", 16},
                     {"intermediate_size", 4096}, {"image_size", 640},       {"layer_norm_eps", 1e-6},
                     {"num_register_tokens", 4}};
  for (const auto& [key, value] : json.items()) {
    if (!value.is_null() || !filled.contains(key)) filled[key] = value;
  }
  return filled;
}

void ReadDinov2(const io::Fields& config, VitConfig* c) {
  c->block.mlp.width = HiddenWidth(c->block.width, config.Number("mlp_ratio", 4));
  if (config.Bool("use_swiglu_ffn", false)) {
    c->block.mlp.gate = simd::Gate::kFirst;
    c->block.mlp.activation = simd::Activation::kSilu;
    c->block.mlp.width = SwiGluWidth(c->block.mlp.width);
  }
  c->interpolation = Interpolation::kNone;
}

void ReadDinov3(const io::Fields& config, VitConfig* c) {
  ReadHfDinov3Biases(config, c);
  if (config.Bool("use_gated_mlp", false)) c->block.mlp.gate = simd::Gate::kFirst;
  c->positions = Positions::kNone;
  c->rotary = PatchRotary::kNormalised;
  const io::Fields rope = config.Object("rope_parameters");
  Require(rope.String("rope_type", "default") == "default",
          "config.json: rope_type \"{}\" is not supported (default is)", rope.String("rope_type", ""));
  c->rotary_base = rope.Number("rope_theta", kBase);
  Require(c->rotary_base >= 1, "config.json: rope_theta is {}, expected 1 at least", c->rotary_base);
  c->rotary_halves = true;
}

Description DescribeEomt(const io::Fields& file, const std::optional<io::Json>& preprocessor,
                         const io::TensorSet& tensors) {
  const io::Json filled = WithDefaults(file.json());
  const io::Fields config = file.With(filled);
  const bool dinov3 = config.String("model_type", "") == kEomtDinov3;
  const std::string model = dinov3 ? "EomtDinov3ForUniversalSegmentation" : "EomtForUniversalSegmentation";
  Description description;
  VitConfig& c = description.config;
  c.family = Family::kHuggingFace;
  c.architecture = HfArchitecture(config, model);
  Require(c.architecture == model, "config.json: architecture \"{}\" is not supported ({} is)", c.architecture, model);
  ReadHfEncoder(config, {.eps = 1e-6}, &c);
  Require(c.image_height == c.image_width && c.patch_height == c.patch_width,
          "config.json: image_size and patch_size are {}x{} and {}x{}, expected squares", c.image_height, c.image_width,
          c.patch_height, c.patch_width);
  c.mask_activation = c.block.mlp.activation;
  c.square_positions = c.crops_to_patches = false;
  c.block.layer_scale = true;
  c.registers = config.Int("num_register_tokens", 4);
  c.position_prefix = 0;
  c.distillation_mean = false;
  (dinov3 ? ReadDinov3 : ReadDinov2)(config, &c);
  c.query_tokens = config.Int("num_queries", 200);
  c.query_blocks = config.Int("num_blocks", 4);
  c.mask_doublings = config.Int("num_upscale_blocks", 2);
  c.mask_classes = ReadHfLabels(config, &description);
  Require(c.query_tokens > 0 && c.mask_classes > 0,
          "config.json: {} queries of {} classes, expected at least 1 of each", c.query_tokens, c.mask_classes);
  RequireNoMasking(tensors, c.query_blocks);
  if (preprocessor) {
    SetHfPreprocessor(preprocessor, {{"image_processor_type", "EomtImageProcessor"}}, &description);
  } else {  // the class's own default would give images that the model does not take
    description.preprocess_json = {{"image_processor_type", "EomtImageProcessor"},
                                   {"size", {{"shortest_edge", c.image_height}, {"longest_edge", c.image_height}}},
                                   {"do_pad", true}};
    description.assumptions.push_back(fmt::format(
        "no preprocessor_config.json: images are made to fit into {0}x{0} and padded, as for panoptic and instance "
        "segmentation",
        c.image_height));
  }
  return description;
}

constexpr const char* kQueries = "query.weight";

// The patch projection's name, or null.
const char* FindPatches(const io::TensorSet& tensors) {
  for (const char* name : {"embeddings.patch_embeddings.projection.weight", "embeddings.patch_embeddings.weight"}) {
    if (tensors.Find(name)) return name;
  }
  return nullptr;
}

bool AreEomtTensors(const io::TensorSet& tensors) {
  return FindPatches(tensors) != nullptr && tensors.Find(kQueries) && tensors.Find("class_predictor.weight");
}

Description DescribeEomtTensors(const io::TensorSet& tensors, const ModelHints& given) {
  const std::string patches = FindPatches(tensors);
  const bool dinov3 = patches == "embeddings.patch_embeddings.weight";
  const auto block = [](int64_t index, std::string_view rest) { return fmt::format("layers.{}.{}", index, rest); };
  const auto has = [&](std::string_view rest) { return tensors.Find(block(0, rest)) != nullptr; };
  int64_t depth = 0, doublings = 0;
  while (tensors.Find(block(depth, "norm1.weight"))) ++depth;
  while (tensors.Find(fmt::format("upscale_block.block.{}.conv1.weight", doublings))) ++doublings;
  const int64_t width = Extent(tensors, patches, 0), patch = Extent(tensors, patches, 2);
  const bool gated = has("mlp.gate_proj.weight") || has("mlp.weights_in.weight");
  const int64_t side = dinov3 ? 14 : SquareSide(Extent(tensors, "embeddings.position_embeddings.weight", 0));
  io::Json config = {
      {"model_type", dinov3 ? kEomtDinov3 : kEomt},
      {"hidden_size", width},
      {"num_channels", Extent(tensors, patches, 1)},
      {"patch_size", {patch, Extent(tensors, patches, 3)}},
      {"image_size", side * patch},
      {"num_hidden_layers", depth},
      {"num_attention_heads", HeadsGiven(given, width, depth)},
      {"num_register_tokens",
       tensors.Find("embeddings.register_tokens") ? Extent(tensors, "embeddings.register_tokens", 1) : 0},
      {"num_queries", Extent(tensors, kQueries, 0)},
      {"num_blocks", Extent(tensors, std::string(kProbabilities), 0)},
      {"num_upscale_blocks", doublings},
      {"num_labels", Extent(tensors, "class_predictor.weight", 0) - 1}};
  std::vector<Assumed> assumed = {{"activation gelu", {"hidden_act"}}, {"LayerNorm's eps 1e-06", {"layer_norm_eps"}}};
  if (dinov3) {
    config.update({{"intermediate_size", Extent(tensors, block(0, "mlp.up_proj.weight"), 0)},
                   {"use_gated_mlp", gated},
                   {"query_bias", has("attention.q_proj.bias")},
                   {"key_bias", has("attention.k_proj.bias")},
                   {"value_bias", has("attention.v_proj.bias")},
                   {"proj_bias", has("attention.o_proj.bias")},
                   {"mlp_bias", has("mlp.up_proj.bias")}});
    if (gated) config["hidden_act"] = "silu";
    assumed.push_back({fmt::format("rotary base {}", kBase), {"rope_parameters"}});
    assumed.push_back({"images of 14x14 patches", {"image_size"}});
  } else {
    config["use_swiglu_ffn"] = gated;
    if (!gated) {
      config["mlp_ratio"] = static_cast<double>(Extent(tensors, block(0, "mlp.fc1.weight"), 0)) /
                            static_cast<double>(std::max<int64_t>(1, width));
    }
  }
  Description description = DescribeEomt(io::Fields(config, "config.json"), {}, tensors);
  AddAssumed(assumed, given, &description.assumptions);
  return description;
}

Translation Refuse(const Description& description) {
  Fail("convert: {} cannot be written as a model of {}: query tokens are in EoMT's own layout only",
       description.config.architecture, Name(Family::kHuggingFace));
}

}  // namespace

constinit const FamilyRow kHfEomt = {
    .library = Family::kHuggingFace,
    .model_types = kModelTypes,
    .recognises = [](const io::Fields& config) { return HasModelType(config, kModelTypes); },
    .recognises_tensors = AreEomtTensors,
    .describe = DescribeEomt,
    .known = kHfImageKeys,
    .describe_tensors = DescribeEomtTensors,
    .settings = kSettings,
    .preprocess_settings = kHfPreprocessKeys,
    .arguments = [](io::Json& config) -> io::Json& { return config; },
    .change_preprocess = ChangeHfPreprocess,
    .write_labels = WriteHfLabels,
    .holds = [](const VitConfig& c) { return c.family == Family::kHuggingFace && c.query_tokens > 0; },
    .layout = LayoutFor,
    .preprocess = PreprocessOfHf,
    .preprocess_known = kHfProcessorKeys,
    .translate = Refuse,
};

}  // namespace qkv::model
