// Hugging Face transformers: DINOv2 and DINOv2 with registers, with or without a classifier.
#include "qkv/model/families/families.h"
#include "qkv/model/families/hf_common.h"
#include "qkv/model/families/names_attention.h"
#include "qkv/model/families/preprocess_common.h"
#include "qkv/model/layout/tensor_names.h"

namespace qkv::model {
namespace {

using simd::Activation;

constexpr HfType kPlain = {"dinov2", "Dinov2", "Hugging Face's DINOv2"};
constexpr HfType kRegisters = {"dinov2_with_registers", "Dinov2WithRegisters", "Hugging Face's DINOv2 with registers"};
constexpr std::string_view kModelTypes[] = {kPlain.type, kRegisters.type};

// ---------------------------------------------------------------------------------------------------------------------
// Names of tensors

constexpr NameRow kBlocks[] = {
    {"blocks.{}.norm1", "@encoder.layer.{}.norm1"},
    {"blocks.{}.attn.qkv",
     "@encoder.layer.{}.attention.attention.query+@encoder.layer.{}.attention.attention.key+"
     "@encoder.layer.{}.attention.attention.value"
     "|@encoder.layer.{}.attention.q_proj+@encoder.layer.{}.attention.k_proj+@encoder.layer.{}.attention.v_proj"},
    {"blocks.{}.attn.proj", "@encoder.layer.{}.attention.output.dense|@encoder.layer.{}.attention.o_proj"},
    {"blocks.{}.ls1.gamma", "@encoder.layer.{}.layer_scale1.lambda1"},
    {"blocks.{}.norm2", "@encoder.layer.{}.norm2"},
    {"blocks.{}.mlp.fc1", "@encoder.layer.{}.mlp.fc1"},
    {"blocks.{}.mlp.fc2", "@encoder.layer.{}.mlp.fc2"},
    {"blocks.{}.ls2.gamma", "@encoder.layer.{}.layer_scale2.lambda1"},
};

constexpr NameRow kSwiGlu[] = {
    {"blocks.{}.mlp.fc1",
     "@encoder.layer.{}.mlp.weights_in|@encoder.layer.{}.mlp.gate_proj+@encoder.layer.{}.mlp.up_proj"},
    {"blocks.{}.mlp.fc2", "@encoder.layer.{}.mlp.weights_out|@encoder.layer.{}.mlp.down_proj"},
};

constexpr std::span<const NameRow> kTables[] = {kBlocks, kHfRows, kAttentionKindRows};
constexpr std::span<const NameRow> kSwiGluTables[] = {kSwiGlu, kBlocks, kHfRows, kAttentionKindRows};

// The class with registers always has a mask token, which only training reads.
constexpr Layout kLayout = {kTables, kHfMaskToken, {}}, kSwiGluLayout = {kSwiGluTables, kHfMaskToken, {}};
constexpr Layout kRegistersLayout = {kTables, kHfMaskToken, kHfMaskToken},
                 kRegistersSwiGluLayout = {kSwiGluTables, kHfMaskToken, kHfMaskToken};

const Layout& LayoutFor(const VitConfig& c) {
  const bool gated = c.block.mlp.gate != simd::Gate::kNone;
  if (c.registers > 0) return gated ? kRegistersSwiGluLayout : kRegistersLayout;
  return gated ? kSwiGluLayout : kLayout;
}

// ---------------------------------------------------------------------------------------------------------------------
// config.json

// Two thirds, rounded up to a multiple of 8.
int64_t SwiGluWidth(int64_t hidden) { return (hidden * 2 / 3 + 7) / 8 * 8; }

io::Json DefaultPreprocessor() {
  io::Json json;
  json["image_processor_type"] = "BitImageProcessor";
  json["size"] = {{"shortest_edge", 256}};
  json["crop_size"] = {{"height", 224}, {"width", 224}};
  json["image_mean"] = {0.485, 0.456, 0.406};
  json["image_std"] = {0.229, 0.224, 0.225};
  json["do_resize"] = json["do_center_crop"] = true;
  json["resample"] = 3;
  return json;
}

Description DescribeHfDinov2(const io::Fields& config, const std::optional<io::Json>& preprocessor,
                             const io::TensorSet& tensors) {
  if (HfArchitecture(config, "") == "Dinov2ModelWithRegisters") {
    // The class of Hibou's authors, older than the type of transformers.
    io::Json renamed = config.json();
    renamed["model_type"] = kRegisters.type;
    renamed["architectures"] = {"Dinov2WithRegistersModel"};
    return DescribeHfDinov2(io::Fields(renamed, config.where()), preprocessor, tensors);
  }
  const bool registers = config.String("model_type", "") == kRegisters.type;
  Description description = ReadHfModel(config, registers ? kRegisters : kPlain, /*patch=*/14, tensors);
  VitConfig& c = description.config;
  c.block.mlp.width = HiddenWidth(c.block.width, config.Number("mlp_ratio", 4));
  c.block.layer_scale = true;
  c.interpolation = registers ? Interpolation::kBicubicAntialias : Interpolation::kBicubic;
  c.registers = registers ? config.Int("num_register_tokens", 4) : 0;
  c.block.norm.eps = config.Number("layer_norm_eps", 1e-6);
  if (config.Bool("use_swiglu_ffn", false)) {
    c.block.mlp.gate = simd::Gate::kFirst;
    c.block.mlp.activation = Activation::kSilu;
    c.block.mlp.width = SwiGluWidth(c.block.mlp.width);
  }
  c.position_prefix = 1;  // registers have no position
  if (ReadHfClassifier(config, &description)) c.pool = Pool::kTokenAndMean;
  SetHfPreprocessor(preprocessor, DefaultPreprocessor(), &description);
  return description;
}

bool HaveRegisters(const io::TensorSet& tensors) {
  return FindWithSuffix(tensors, "embeddings.register_tokens") != nullptr;
}

bool AreDinov2Tensors(const io::TensorSet& tensors) {
  return HasHfPatches(tensors) && (FindWithSuffix(tensors, "layer_scale1.lambda1") || HaveRegisters(tensors));
}

Description DescribeHfDinov2Tensors(const io::TensorSet& tensors, const ModelHints& given) {
  const HfType& type = HaveRegisters(tensors) ? kRegisters : kPlain;
  Description description =
      DescribeHfDinov2(io::Fields(HfConfigFromTensors(tensors, given, type), "config.json"), {}, tensors);
  NoteHfAssumptions(given, &description);
  return description;
}

// ---------------------------------------------------------------------------------------------------------------------
// Translation

// mlp_ratio, an integer; 0 if no ratio gives the MLP's width.
int64_t Ratio(const VitConfig& c) {
  constexpr int64_t kGreatest = 64;
  for (int64_t ratio = 1; ratio <= kGreatest; ++ratio) {
    const int64_t hidden = c.block.width * ratio;
    if ((c.block.mlp.gate == simd::Gate::kNone ? hidden : SwiGluWidth(hidden)) == c.block.mlp.width) return ratio;
  }
  return 0;
}

Obstructions OwnObstructions(const VitConfig& c, std::string_view who) {
  const bool gated = c.block.mlp.gate != simd::Gate::kNone;
  return {
      {c.classes > 0 && c.pool != Pool::kTokenAndMean,
       fmt::format("Dinov2ForImageClassification reads class token and mean; this model {}", DescribePool(c.pool))},
      {c.classes == 0 && c.pool != Pool::kToken,
       fmt::format("{} without a classifier gives the class token; this model {}", who, DescribePool(c.pool))},
      {gated && c.block.mlp.activation != Activation::kSilu,
       fmt::format("{} has no gated MLP but with silu; this one has {}", who, HfName(c.block.mlp.activation))},
      {Ratio(c) == 0, fmt::format("{} has no MLP of width {} at width {}: its mlp_ratio is a whole number", who,
                                  c.block.mlp.width, c.block.width)},
      {c.image_height != c.image_width || c.patch_height != c.patch_width,
       fmt::format("{} takes every grid of positions for a square; this model's is {}x{}", who, c.grid_height(),
                   c.grid_width())},
  };
}

Translation TranslateToHfDinov2(const Description& description) {
  const VitConfig& c = description.config;
  const bool registers = c.registers > 0;
  const HfType& type = registers ? kRegisters : kPlain;
  Translation result = BeginHfTranslation(description, type, OwnObstructions(c, type.who));
  result.config["mlp_ratio"] = Ratio(c);
  result.config["use_swiglu_ffn"] = c.block.mlp.gate != simd::Gate::kNone;
  if (registers) {
    result.config["num_register_tokens"] = c.registers;
  } else {
    result.config["use_mask_token"] = false;
  }
  EndHfTranslation(description, type, registers ? Interpolation::kBicubicAntialias : Interpolation::kBicubic, &result);
  return result;
}

}  // namespace

constinit const FamilyRow kHfDinov2 = {
    .library = Family::kHuggingFace,
    .model_types = kModelTypes,
    .recognises = [](const io::Fields& config) { return HasModelType(config, kModelTypes); },
    .recognises_tensors = AreDinov2Tensors,
    .describe = DescribeHfDinov2,
    .known = kHfImageKeys,
    .describe_tensors = DescribeHfDinov2Tensors,
    // DINOv2 always has LayerScale. The row of ViT takes models without it; its errors name what is missing.
    .settings = kHfSettings,
    .preprocess_settings = kHfPreprocessKeys,
    .arguments = [](io::Json& config) -> io::Json& { return config; },
    .change_preprocess = ChangeHfPreprocess,
    .write_labels = WriteHfLabels,
    .holds = [](const VitConfig& c) { return c.block.layer_scale && !c.distillation_token; },
    .layout = LayoutFor,
    .preprocess = PreprocessOfHf,
    .preprocess_known = kHfProcessorKeys,
    .translate = TranslateToHfDinov2,
};

}  // namespace qkv::model
