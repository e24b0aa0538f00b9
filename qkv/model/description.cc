#include "qkv/model/description.h"

#include <cmath>

#include "qkv/model/fields.h"
#include "qkv/model/layout.h"
#include "qkv/model/sequence_config.h"

namespace qkv::model {
namespace {

// Longer than any tensor of a model; only a file without data can claim more.
constexpr int64_t kMaxExtent = int64_t{1} << 32;

// The number of heads of a model of this width where no tensor has the extent of a head. A guess would change every
// answer and look like none.
int64_t HeadsGiven(const Given& given, int64_t width) {
  Require(given.heads > 0,
          "checkpoint: there is no config.json, and the tensors do not tell how many attention heads the model has; "
          "give --heads N (its width of {} / N features each, often 64), or put its config.json beside the weights",
          width);
  Require(width % given.heads == 0, "checkpoint: {} attention heads were given, which do not divide the width of {}",
          given.heads, width);
  return given.heads;
}

int64_t Extent(const io::SafeTensors& tensors, const std::string& name, int axis) {
  const io::StoredTensor* tensor = tensors.Find(name);
  Require(tensor && tensor->shape.rank() > axis && tensor->shape[axis] <= kMaxExtent,
          "checkpoint: tensor \"{}\" is missing, or of a strange shape", name);
  return tensor->shape[axis];
}

int64_t CountBlocks(const io::SafeTensors& tensors, std::string_view pattern) {
  int64_t depth = 0;
  while (tensors.Find(fmt::format(fmt::runtime(pattern), depth))) ++depth;
  return depth;
}

// The side of a square grid of `count` patches. Throws Error when there is none.
int64_t SquareSide(int64_t count) {
  const auto side = static_cast<int64_t>(std::lround(std::sqrt(static_cast<double>(std::max<int64_t>(0, count)))));
  Require(count > 0 && side * side == count,
          "checkpoint: its {} patch positions are no square grid; give the image size in a config.json", count);
  return side;
}

// timm's arguments as far as its tensors determine them.
io::Json TimmArguments(const io::SafeTensors& tensors, const Given& given, std::vector<std::string>* assumptions) {
  const auto has = [&](std::string_view name) { return tensors.Find(name) != nullptr; };
  io::Json args;
  const int64_t width = Extent(tensors, "patch_embed.proj.weight", 0);
  const int64_t patch_h = Extent(tensors, "patch_embed.proj.weight", 2);
  const int64_t patch_w = Extent(tensors, "patch_embed.proj.weight", 3);
  args["embed_dim"] = width;
  args["in_chans"] = Extent(tensors, "patch_embed.proj.weight", 1);
  args["patch_size"] = {patch_h, patch_w};
  args["depth"] = CountBlocks(tensors, "blocks.{}.norm1.weight");
  args["class_token"] = has("cls_token");
  args["distilled"] = has("dist_token");
  args["reg_tokens"] = has("reg_token") ? Extent(tensors, "reg_token", 1) : 0;
  args["num_classes"] = has("head.weight") ? Extent(tensors, "head.weight", 0) : 0;
  args["qkv_bias"] = has("blocks.0.attn.qkv.bias");
  args["proj_bias"] = has("blocks.0.attn.proj.bias");
  args["qk_norm"] = has("blocks.0.attn.q_norm.weight");
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
    args["num_heads"] = HeadsGiven(given, joined);
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
  args["norm_eps"] = has("norm_pre.weight") ? 1e-5 : 1e-6;  // all CLIP models of the registry have the larger one
  assumptions->push_back(fmt::format("activation {}, LayerNorm's eps {}", args["act_layer"].get<std::string>(),
                                     args["norm_eps"].get<double>()));
  // A hair above, since the ratio is multiplied back and truncated.
  args["mlp_ratio"] = (static_cast<double>(hidden) + 1e-3) / static_cast<double>(width);

  const int64_t prefix = (has("cls_token") ? 1 : 0) + (has("dist_token") ? 1 : 0) + args["reg_tokens"].get<int64_t>();
  if (!has("pos_embed")) {
    args["pos_embed"] = "none";
    args["img_size"] = {14 * patch_h, 14 * patch_w};
    assumptions->push_back("images of 14x14 patches (there are no position embeddings to count)");
    return args;
  }
  const int64_t positions = Extent(tensors, "pos_embed", 1);
  const auto is_square = [](int64_t n) {
    const auto side = static_cast<int64_t>(std::lround(std::sqrt(static_cast<double>(n))));
    return n > 0 && side * side == n;
  };
  const bool without_prefix = prefix > 0 && is_square(positions) && !is_square(positions - prefix);
  args["no_embed_class"] = without_prefix;
  const int64_t side = SquareSide(without_prefix ? positions : positions - prefix);
  args["img_size"] = {side * patch_h, side * patch_w};
  return args;
}

Description DescribeBareTimm(const io::SafeTensors& tensors, const Given& given) {
  std::vector<std::string> assumptions;
  const io::Json args = TimmArguments(tensors, given, &assumptions);
  // The name only serves messages: all arguments are given.
  io::Json config = {{"architecture", "vision_transformer"}, {"model_args", args}};
  config["pretrained_cfg"] = {{"crop_pct", 0.9}, {"interpolation", "bicubic"}};
  const auto channels = static_cast<size_t>(std::clamp<int64_t>(args["in_chans"].get<int64_t>(), 1, 4));
  config["pretrained_cfg"]["mean"] = config["pretrained_cfg"]["std"] = std::vector<double>(channels, 0.5);
  Description description = DescribeTimm(config);
  description.assumptions.insert(description.assumptions.end(), assumptions.begin(), assumptions.end());
  description.assumptions.push_back("preprocessing: timm's default for ViT (bicubic, crop 0.9, mean = std = 0.5)");
  return description;
}

Description DescribeBareHuggingFace(const io::SafeTensors& tensors, const Given& given) {
  const auto extent = [&](std::string_view suffix, int axis) -> int64_t {
    const io::StoredTensor* tensor = FindWithSuffix(tensors, suffix);
    return tensor && tensor->shape.rank() > axis && tensor->shape[axis] <= kMaxExtent ? tensor->shape[axis] : 0;
  };
  const auto has = [&](std::string_view suffix) { return FindWithSuffix(tensors, suffix) != nullptr; };
  const bool dinov2 = has("layer_scale1.lambda1"), deit = has("embeddings.distillation_token");
  const bool registers = has("embeddings.register_tokens");
  const std::string base = "embeddings.patch_embeddings.projection.weight";
  const int64_t width = extent(base, 0), patch = extent(base, 2);
  Require(patch > 0 && patch == extent(base, 3), "checkpoint: its patch projection has the shape of none");

  io::Json config;
  config["model_type"] = registers ? "dinov2_with_registers" : dinov2 ? "dinov2" : deit ? "deit" : "vit";
  config["hidden_size"] = width;
  config["num_channels"] = extent(base, 1);
  config["patch_size"] = patch;
  config["num_attention_heads"] = HeadsGiven(given, width);
  int64_t depth = 0;
  for (const char* pattern : {"encoder.layer.{}.norm1.weight", "encoder.layer.{}.layernorm_before.weight",
                              "layers.{}.layernorm_before.weight"}) {
    int64_t count = 0;
    while (has(fmt::format(fmt::runtime(pattern), count))) ++count;
    depth = std::max(depth, count);
  }
  config["num_hidden_layers"] = depth;
  for (const char* name : {"layer.0.intermediate.dense.weight", "layer.0.mlp.fc1.weight", "layers.0.mlp.fc1.weight"}) {
    if (const int64_t hidden = extent(name, 0)) {
      config["intermediate_size"] = hidden;
      config["mlp_ratio"] = static_cast<double>(hidden) / static_cast<double>(std::max<int64_t>(1, width));
    }
  }
  config["use_swiglu_ffn"] = has("layer.0.mlp.weights_in.weight") || has("layer.0.mlp.gate_proj.weight");
  config["qkv_bias"] = has("query.bias") || has("q_proj.bias");
  config["num_register_tokens"] = extent("embeddings.register_tokens", 1);
  const int64_t prefix = deit ? 2 : 1;
  config["image_size"] = SquareSide(extent("embeddings.position_embeddings", 1) - prefix) * patch;
  if (has("classifier.weight")) config["num_labels"] = extent("classifier.weight", 0);
  if (has("cls_classifier.weight")) config["num_labels"] = extent("cls_classifier.weight", 0);
  if (has("pooler.dense.weight")) config["pooler_output_size"] = extent("pooler.dense.weight", 0);

  Description description = DescribeHuggingFace(config, {}, tensors);
  description.assumptions.push_back(fmt::format("activation gelu, LayerNorm's eps {}", description.config.block.eps));
  return description;
}

bool LooksLikeVitPytorch(const io::SafeTensors& tensors) {
  return tensors.Find("to_patch_embedding.2.weight") != nullptr;
}

// The kind of attention, which no library but qkv has a word for: the same words in every family's config.json.
void ParseAttention(const Fields& config, VitConfig* c) {
  const std::string name = config.String("qkv_attention", "separate");
  const std::optional<nn::AttentionKind> kind = FindAttentionKind(name);
  Require(kind.has_value(), "config.json: \"qkv_attention\" is \"{}\", expected {}", name, kAttentionKindNames);
  c->block.attention.kind = *kind;
  c->block.attention.qk_width = config.Int("qkv_attention_rank", 0);
}

}  // namespace

Description DescribeFromTensors(const io::SafeTensors& tensors, const Given& given) {
  Description description;
  Require(tensors.Find("blocks.0.attn.v.weight") == nullptr && tensors.Find("blocks.0.attn.qk.weight") == nullptr &&
              tensors.Find("blocks.0.attn.qk.query.weight") == nullptr,
          "checkpoint: its attention is of a kind that only a config.json tells (\"qkv_attention\")");
  if (tensors.Find("blocks.0.attn.qkv.weight") && tensors.Find("patch_embed.proj.weight")) {
    description = DescribeBareTimm(tensors, given);
  } else if (FindWithSuffix(tensors, "embeddings.patch_embeddings.projection.weight")) {
    description = DescribeBareHuggingFace(tensors, given);
  } else if (LooksLikeVitPytorch(tensors)) {
    Fail(
        "checkpoint: vit-pytorch's tensors do not tell image_size, patch_size and heads; put them into a config.json "
        "beside the file: {{\"library_name\": \"vit-pytorch\", \"architecture\": \"ViT\", \"image_size\": 256, "
        "\"patch_size\": 32, \"heads\": 16, \"dim_head\": 64}}");
  } else {
    Fail(
        "checkpoint: its tensors are of no layout that qkv knows (timm, Hugging Face, vit-pytorch); the first is "
        "\"{}\"",
        tensors.tensors().empty() ? "" : tensors.tensors()[0].name);
  }
  Validate(description.config);
  RequireAgreement(description, given);
  description.assumptions.insert(description.assumptions.begin(), "no config.json: all is read off the tensors");
  description.preprocess =
      PreprocessForSize(description, description.config.image_height, description.config.image_width);
  return description;
}

void RequireAgreement(const Description& description, const Given& given) {
  Require(given.heads == 0 || given.heads == description.config.block.attention.heads,
          "checkpoint: --heads {} contradicts the model's own files, which say {}; leave it out", given.heads,
          description.config.block.attention.heads);
}

Description Describe(const io::Json& config, const std::optional<io::Json>& preprocessor,
                     const io::SafeTensors& tensors) {
  const Fields fields(config, "config.json");
  Require(!SaysSequenceModel(config), "config.json: this is a model of sequences, expected one of images");
  Description description;
  if (fields.String("library_name", "") == "vit-pytorch") {
    description = DescribeVitPytorch(config, tensors);
  } else if (fields.Has("model_type")) {
    description = DescribeHuggingFace(config, preprocessor, tensors);
  } else if (fields.Has("architecture")) {
    description = DescribeTimm(config);
  } else {
    Fail(
        "config.json: of no family that qkv knows: it has neither \"architecture\" (timm) nor \"model_type\" (Hugging "
        "Face) nor \"library_name\": \"vit-pytorch\"");
  }
  ParseAttention(fields, &description.config);
  Validate(description.config);
  const std::string background = fields.String("qkv_background", "any");
  Require(background == "any" || background == "dark",
          "config.json: \"qkv_background\" is \"{}\", expected any or dark", background);
  description.dark_background = background == "dark";
  // The configuration's own size, not the model's: a Hugging Face processor may crop to another.
  description.preprocess =
      description.config.family == Family::kHuggingFace
          ? PreprocessFromHuggingFace(description.preprocess_json, static_cast<int>(description.config.channels))
          : PreprocessFromTimm(description.preprocess_json);
  return description;
}

image::Preprocess PreprocessForSize(const Description& description, int64_t height, int64_t width) {
  const auto size = std::pair(height, width);
  return description.config.family == Family::kHuggingFace
             ? PreprocessFromHuggingFace(description.preprocess_json, static_cast<int>(description.config.channels),
                                         size)
             : PreprocessFromTimm(description.preprocess_json, size);
}

}  // namespace qkv::model
