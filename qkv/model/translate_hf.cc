// To Hugging Face's config.json and preprocessor_config.json: ViT, DeiT, DINOv2 or DINOv2 with registers.
#include <string_view>

#include "qkv/model/preprocess_writer.h"
#include "qkv/model/translate.h"

namespace qkv::model {
namespace {

using simd::Activation;

struct ModelType {
  std::string_view type, stem, who;  // model_type, the classes' common beginning, for messages
};

constexpr ModelType kVit = {"vit", "ViT", "Hugging Face's ViT"};
constexpr ModelType kDeit = {"deit", "DeiT", "Hugging Face's DeiT"};
constexpr ModelType kDinov2 = {"dinov2", "Dinov2", "Hugging Face's DINOv2"};
constexpr ModelType kDinov2Registers = {"dinov2_with_registers", "Dinov2WithRegisters",
                                        "Hugging Face's DINOv2 with registers"};

bool IsDinov2(const ModelType& type) { return type.type.starts_with("dinov2"); }

const ModelType& TypeFor(const VitConfig& c) {
  if (c.distillation_token) return kDeit;
  // Only DINOv2 has LayerScale, and it always has: without, ViT says better what is missing.
  if (c.block.layer_scale) return c.registers > 0 ? kDinov2Registers : kDinov2;
  return kVit;
}

std::string_view NameOf(Activation activation) {
  return activation == Activation::kGeluTanh ? "gelu_pytorch_tanh" : Name(activation);
}

std::string_view NameOf(Pool pool) {
  switch (pool) {
    case Pool::kToken:
      return "takes the class token alone";
    case Pool::kMean:
      return "pools by the mean of its tokens";
    case Pool::kMax:
      return "pools by the maximum of its tokens";
    case Pool::kMeanMax:
      return "pools by half mean, half maximum of its tokens";
    case Pool::kMap:
      return "pools by attention";
    case Pool::kTokenAndMean:
      return "reads class token and mean";
  }
  return "";
}

// DINOv2's mlp_ratio, a whole number. Zero when none gives the MLP's width.
int64_t Dinov2Ratio(const VitConfig& c) {
  constexpr int64_t kGreatest = 64;
  for (int64_t ratio = 1; ratio <= kGreatest; ++ratio) {
    const int64_t hidden = c.block.width * ratio;
    if ((c.block.mlp.gate == simd::Gate::kNone ? hidden : (hidden * 2 / 3 + 7) / 8 * 8) == c.block.mlp.width)
      return ratio;
  }
  return 0;
}

Obstructions Dinov2Obstructions(const VitConfig& c, std::string_view who) {
  const bool gated = c.block.mlp.gate != simd::Gate::kNone;
  return {
      {c.classes > 0 && c.pool != Pool::kTokenAndMean,
       fmt::format("Dinov2ForImageClassification reads class token and mean; this model {}", NameOf(c.pool))},
      {c.classes == 0 && c.pool != Pool::kToken,
       fmt::format("{} without a classifier gives the class token; this model {}", who, NameOf(c.pool))},
      {gated && c.block.mlp.activation != Activation::kSilu,
       fmt::format("{} has no gated MLP but with silu; this one has {}", who, NameOf(c.block.mlp.activation))},
      {Dinov2Ratio(c) == 0, fmt::format("{} has no MLP of width {} at width {}: its mlp_ratio is a whole number", who,
                                        c.block.mlp.width, c.block.width)},
      {c.image_height != c.image_width || c.patch_height != c.patch_width,
       fmt::format("{} takes every grid of positions for a square; this model's is {}x{}", who, c.grid_height(),
                   c.grid_width())},
  };
}

Obstructions VitObstructions(const VitConfig& c, std::string_view who) {
  const auto has_no = [&](std::string_view what) { return fmt::format("{} has no {}", who, what); };
  return {
      {c.pool != Pool::kToken, fmt::format("{} reads the class token; this model {}", who, NameOf(c.pool))},
      {c.registers > 0, has_no("register tokens")},
      {c.block.layer_scale, has_no("LayerScale")},
      {c.block.mlp.gate != simd::Gate::kNone, has_no("gated MLP")},
      {c.distillation_token && c.classes == 0 && c.distillation_mean,
       "DeiTModel answers with the class token; this model, without classifiers, with the mean of its two tokens"},
  };
}

void Refuse(const VitConfig& c, const ModelType& type) {
  const auto has_no = [&](std::string_view what) { return fmt::format("{} has no {}", type.who, what); };
  Obstructions list = CommonObstructions(c, type.who);
  const Obstructions shared = {
      {!c.class_token, has_no("model without a class token")},
      {c.positions == Positions::kNone, has_no("model without position embeddings")},
      {c.pre_norm, has_no("LayerNorm before the blocks")},
      {!c.patch_bias, has_no("patch projection without a bias")},
      {!c.block.attention.projection_bias, has_no("output projection without a bias")},
      {!c.block.mlp.bias, has_no("MLP without biases")},
      {c.block.attention.qk_norm, has_no("LayerNorm on queries and keys")},
      {c.block.attention.output_norm, has_no("LayerNorm before the output projection")},
      {c.block.mlp.norm, has_no("LayerNorm inside the MLP")},
      {c.fc_norm, has_no("LayerNorm after pooling")},
      {!c.final_norm && !c.fc_norm, has_no("model without a final LayerNorm")},
  };
  list.insert(list.end(), shared.begin(), shared.end());
  const Obstructions own = IsDinov2(type) ? Dinov2Obstructions(c, type.who) : VitObstructions(c, type.who);
  list.insert(list.end(), own.begin(), own.end());
  RefuseObstructed(c, Family::kHuggingFace, list);
}

io::Json SizeOf(int64_t height, int64_t width) {
  return height == width ? io::Json(height) : io::Json::array({height, width});
}

void WriteLabels(const Description& description, io::Json* config) {
  io::Json names = io::Json::object(), indices = io::Json::object();
  for (int64_t i = 0; i < description.config.classes; ++i) {
    const auto index = static_cast<size_t>(i);
    const bool named = index < description.labels.size() && !description.labels[index].empty();
    const std::string name = named ? description.labels[index] : fmt::format("LABEL_{}", i);
    names[std::to_string(i)] = name;
    indices[name] = i;
  }
  (*config)["id2label"] = std::move(names);
  (*config)["label2id"] = std::move(indices);
}

std::string ClassOf(const VitConfig& c, const ModelType& type) {
  const std::string stem(type.stem);
  if (c.distillation_head) return stem + "ForImageClassificationWithTeacher";
  return stem + (c.classes > 0 ? "ForImageClassification" : "Model");
}

}  // namespace

Translation TranslateToHuggingFace(const Description& description) {
  const VitConfig& c = description.config;
  const ModelType& type = TypeFor(c);
  Refuse(c, type);
  Translation result;
  io::Json& config = result.config;
  config = {{"architectures", {ClassOf(c, type)}},
            {"model_type", type.type},
            {"image_size", SizeOf(c.image_height, c.image_width)},
            {"patch_size", SizeOf(c.patch_height, c.patch_width)},
            {"num_channels", c.channels},
            {"hidden_size", c.block.width},
            {"num_hidden_layers", c.depth},
            {"num_attention_heads", c.block.attention.heads},
            {"hidden_act", NameOf(c.block.mlp.gate == simd::Gate::kNone ? c.block.mlp.activation : Activation::kGelu)},
            {"layer_norm_eps", c.block.eps},
            {"qkv_bias", c.block.attention.bias},
            {"attention_probs_dropout_prob", 0.0},
            {"hidden_dropout_prob", 0.0}};
  if (IsDinov2(type)) {
    config["mlp_ratio"] = Dinov2Ratio(c);
    config["use_swiglu_ffn"] = c.block.mlp.gate != simd::Gate::kNone;
    if (c.registers > 0) {
      config["num_register_tokens"] = c.registers;
    } else {
      config["use_mask_token"] = false;
    }
  } else {
    config["intermediate_size"] = c.block.mlp.width;
    if (c.pooler_width > 0) {
      config["pooler_output_size"] = c.pooler_width;
      config["pooler_act"] = NameOf(c.pooler_activation);
    } else if (c.classes == 0) {
      result.notes.push_back(fmt::format(
          "load it with {}.from_pretrained(…, add_pooling_layer=False): it has no pooler", ClassOf(c, type)));
    }
  }
  if (c.classes > 0) {
    WriteLabels(description, &config);
    result.prefix = std::string(type.type) + ".";
  }
  result.preprocessor = PreprocessToHuggingFace(description.preprocess, &result.notes);
  const auto interpolation =
      type.type == kDinov2Registers.type ? Interpolation::kBicubicAntialias : Interpolation::kBicubic;
  NoteOtherSizes(description, Family::kHuggingFace, interpolation, &result.notes);
  if (c.family != Family::kHuggingFace && !IsDinov2(type) && !PreprocessesToTrainedSize(description)) {
    result.notes.push_back("pass interpolate_pos_encoding=True to its forward: images are not of the trained size");
  }
  return result;
}

}  // namespace qkv::model
