// open_clip's own files: open_clip_config.json with open_clip_model.safetensors or open_clip_pytorch_model.bin. Image
// encoders are open_clip's VisionTransformer or one of timm's models; texts are encoded by its TextTransformer. Not
// here: ResNets, CoCa's attention pooling and class token of texts, and text encoders of Hugging Face.
#include <fmt/format.h>

#include <tuple>

#include "qkv/core/error.h"
#include "qkv/model/config/preprocess_config.h"
#include "qkv/model/families/describe.h"
#include "qkv/model/families/families.h"
#include "qkv/model/families/names_attention.h"
#include "qkv/model/families/timm_names.h"
#include "qkv/model/layout/tensor_names.h"

namespace qkv::model {
namespace {

using simd::Activation;

// ---------------------------------------------------------------------------------------------------------------------
// Names of tensors

// The blocks of either tower, whose prefix is "visual.", "text." or nothing.
constexpr NameRow kBlocks[] = {
    {"blocks.{}.norm1", "@transformer.resblocks.{}.ln_1"},
    {"blocks.{}.attn.qkv.weight", "@transformer.resblocks.{}.attn.in_proj_weight"},
    {"blocks.{}.attn.qkv.bias", "@transformer.resblocks.{}.attn.in_proj_bias"},
    {"blocks.{}.attn.proj", "@transformer.resblocks.{}.attn.out_proj"},
    {"blocks.{}.ls1.gamma", "@transformer.resblocks.{}.ls_1.gamma"},
    {"blocks.{}.norm2", "@transformer.resblocks.{}.ln_2"},
    {"blocks.{}.mlp.fc1", "@transformer.resblocks.{}.mlp.c_fc"},
    {"blocks.{}.mlp.fc2", "@transformer.resblocks.{}.mlp.c_proj"},
    {"blocks.{}.ls2.gamma", "@transformer.resblocks.{}.ls_2.gamma"},
};
constexpr NameRow kRows[] = {
    {"cls_token", "@class_embedding"},
    {"pos_embed", "@positional_embedding"},
    {"patch_embed.proj", "@conv1"},
    {"norm_pre", "@ln_pre"},
    {"norm", "@ln_post"},
    {"fc_norm", "@ln_post"},
    {"projection.weight", "^@proj"},
};
// With timm inside, '@' is "visual.trunk.".
constexpr NameRow kTimmProjection[] = {{"projection", "visual.head.proj|@head"}};
constexpr NameRow kTextRows[] = {
    {"token_embed", "@token_embedding"},
    {"pos_embed", "@positional_embedding"},
    {"norm", "@ln_final"},
    {"head.weight", "^@text_projection|@text_projection.weight"},
    {"head.bias", "@text_projection.bias"},
    {"logit_scale", "logit_scale"},
    {"logit_bias", "logit_bias"},
};
// Stored by OpenAI's and early versions.
constexpr std::string_view kIgnored[] = {"attn_mask", "text.attn_mask", "input_resolution", "context_length",
                                         "vocab_size"};

constexpr std::span<const NameRow> kTables[] = {kRows, kBlocks, kAttentionKindRows};
constexpr std::span<const NameRow> kTimmTables[] = {kTimmProjection, kTimmRows, kAttentionKindRows};
constexpr std::span<const NameRow> kTextTables[] = {kTextRows, kBlocks};
constexpr Layout kLayout = {kTables, kIgnored, {}}, kTimmLayout = {kTimmTables, kIgnored, {}},
                 kTextLayout = {kTextTables, kIgnored, {}};

constexpr std::string_view kNative = "open_clip";  // architecture of open_clip's VisionTransformer

const Layout& LayoutFor(const VitConfig& config) { return config.architecture == kNative ? kLayout : kTimmLayout; }

// ---------------------------------------------------------------------------------------------------------------------
// open_clip_config.json

// Keys supported at one value only, or without an effect on the answer.
constexpr io::KnownKey kKnownKeys[] = {
    {"custom_text"},  // the tensors tell
    {"init_logit_scale"},
    {"cast_dtype"},
    {"output_dict"},
    {"output_tokens"},
    {"nonscalar_logit_scale", "false"},
    {"multimodal_cfg", "null"},
    {"patch_dropout"},
    {"attentional_pool", "false"},
    {"attn_pooler_queries"},
    {"attn_pooler_heads"},
    // Options of blocks that no published model has.
    {"block_type"},
    {"qk_norm", "false"},
    {"scaled_cosine_attn", "false"},
    {"scale_heads", "false"},
    {"scale_attn_inner", "false"},
    {"scale_attn", "false"},
    {"scale_fc", "false"},
    {"embed_cls", "false"},
    {"model_cfg.text_cfg.final_ln_after_pool", "false"},
    {"use_pad_mask"},  // of causal texts
    {"correct_cls_mask"},
    {"pad_id"},
    {"eos_id"},
    {"hf_model_pretrained"},
    {"hf_proj_type"},
    {"hf_pooler_type"},
    {"tokenizer_mode"},
    // Beside a model of timm.
    {"timm_model_name"},
    {"timm_model_pretrained"},
    {"timm_pool"},
    {"timm_proj"},
    {"timm_proj_bias"},
    {"timm_drop"},
    {"timm_drop_path"},
    {"model_cfg.vision_cfg.layers"},
    {"model_cfg.vision_cfg.width"},
    {"model_cfg.vision_cfg.head_width"},
    {"model_cfg.vision_cfg.mlp_ratio"},
    {"model_cfg.vision_cfg.patch_size"},
    {"model_cfg.vision_cfg.image_size"},
    {"model_cfg.vision_cfg.ls_init_value"},
    {"model_cfg.vision_cfg.no_ln_pre"},
    {"model_cfg.vision_cfg.pos_embed_type"},
    {"model_cfg.vision_cfg.final_ln_after_pool"},
    {"model_cfg.vision_cfg.pool_type"},
    {"model_cfg.vision_cfg.act_kwargs"},
    {"model_cfg.vision_cfg.norm_kwargs"},
    {"preprocess_cfg.size"},  // that of the image encoder counts
    {"preprocess_cfg.mode", "\"RGB\""},
};

void Refuse(const io::Fields& config, std::initializer_list<const char*> switches) {
  for (const char* key : switches) {
    Require(!config.Bool(key, false), "{}: \"{}\" is not supported", config.where(), key);
  }
}

// The encoder's blocks: width, heads, MLP, activation, norms.
void ReadBlocks(const io::Fields& config, int64_t heads, bool quick_gelu, nn::BlockConfig* block) {
  Require(heads > 0 && block->width > 0 && block->width % heads == 0, "{}: {} heads do not divide a width of {}",
          config.where(), heads, block->width);
  block->attention.heads = heads;
  block->attention.head_width = block->width / heads;
  block->mlp.width = HiddenWidth(block->width, config.Number("mlp_ratio", 4));
  block->mlp.activation = quick_gelu ? Activation::kQuickGelu : Activation::kGelu;
  const std::string approximate = config.Object("act_kwargs").String("approximate", "none");
  Require(approximate == "none" || (approximate == "tanh" && !quick_gelu),
          "{}: \"act_kwargs\" asks for the approximation \"{}\", expected none, or tanh of gelu", config.where(),
          approximate);
  if (approximate == "tanh") block->mlp.activation = Activation::kGeluTanh;
  block->norm.eps = config.Object("norm_kwargs").Number("eps", 1e-5);
  block->layer_scale = config.Number("ls_init_value", 0) != 0;
}

VitConfig ReadNative(const io::Fields& config, int64_t embedding, bool quick_gelu) {
  Require(!config.Has("layers") || config.json()["layers"].is_number(),
          "{}: a ResNet (\"layers\" is a list) is not supported, only Vision Transformers", config.where());
  const std::string positions = config.String("pos_embed_type", "learnable"), pool = config.String("pool_type", "tok");
  // Computed positions are stored, too.
  Require(positions == "learnable" || positions == "sin_cos_2d", "{}: \"pos_embed_type\" is \"{}\", expected learnable",
          config.where(), positions);
  Require(pool == "tok" || pool == "avg", "{}: \"pool_type\" is \"{}\", expected tok or avg", config.where(), pool);
  VitConfig c;
  c.architecture = kNative;
  std::tie(c.image_height, c.image_width) = config.Size("image_size", {224, 224});
  std::tie(c.patch_height, c.patch_width) = config.Size("patch_size", {16, 16});
  c.block.width = config.Int("width", 768);
  const int64_t head_width = config.Int("head_width", 64);
  Require(head_width > 0, "{}: \"head_width\" is {}", config.where(), head_width);
  ReadBlocks(config, c.block.width / head_width, quick_gelu, &c.block);
  c.depth = config.Int("layers", 12);
  c.patch_bias = false;
  c.pre_norm = !config.Bool("no_ln_pre", false);
  c.fc_norm = config.Bool("final_ln_after_pool", false);
  c.final_norm = !c.fc_norm;
  c.pool = pool == "tok" ? Pool::kToken : Pool::kMean;
  c.projection_width = embedding;
  return c;
}

// A model of timm. args: "timm_args" of the file, arguments that differ from the registry's.
VitConfig ReadTimm(const io::Fields& config, const io::Fields& args, int64_t embedding) {
  const std::string projection = config.String("timm_proj", "linear"), pool = config.String("timm_pool", "avg");
  Require(projection == "linear" || projection == "none" || projection.empty(),
          "{}: \"timm_proj\" is \"{}\", expected linear, none or nothing", config.where(), projection);
  io::Json model = {{"architecture", config.String("timm_model_name", "")}, {"model_args", args.json()}};
  if (!pool.empty()) {
    Require(FindPool(pool).has_value(), "{}: \"timm_pool\" is \"{}\", expected token, avg, max, avgmax or map",
            config.where(), pool);
    model["model_args"]["global_pool"] = pool;
  }
  model["model_args"]["num_classes"] = 0;
  VitConfig c = DescribeTimm(model).config;
  if (projection == "none") return c;
  c.projection_width = embedding;
  c.projection_bias = projection.empty() || config.Bool("timm_proj_bias", false);  // if empty: timm's classifier
  return c;
}

// Which of open_clip's tokenizers prepares texts, and how: its own fills with zeros, Hugging Face's with their padding.
TextPreparation ReadPreparation(const io::Fields& config) {
  const io::Fields options = config.Object("tokenizer_kwargs");
  const bool own = config.String("hf_tokenizer_name", "").empty();
  TextPreparation preparation;
  if (own) preparation.padding_id = 0;
  const std::string clean = options.String("clean", own ? "lower" : "whitespace");
  preparation.cleaning = clean == "lower"          ? TextCleaning::kLower
                         : clean == "whitespace"   ? TextCleaning::kWhitespace
                         : clean == "canonicalize" ? TextCleaning::kCanonical
                                                   : TextCleaning::kNone;
  if (preparation.cleaning == TextCleaning::kNone) preparation.unsupported = fmt::format("\"clean\": \"{}\"", clean);
  preparation.hides_separator = !own && options.Bool("strip_sep_token", false);
  for (const auto& [key, value] : options.json().items()) {
    if (key == "clean" || key == "strip_sep_token" || value.is_null() || value == "") continue;
    preparation.unsupported = fmt::format("\"{}\"", key);
  }
  const std::string mode = config.String("tokenizer_mode", "");
  if (!own && !mode.empty()) preparation.unsupported = fmt::format("\"tokenizer_mode\": \"{}\"", mode);
  return preparation;
}

TextTower ReadText(const io::Fields& config, int64_t embedding, bool quick_gelu) {
  Require(!config.Has("hf_model_name"),
          "{}: texts are encoded by Hugging Face's {}, which is not supported; only open_clip's own encoder is",
          config.where(), config.String("hf_model_name", ""));
  Require(config.String("proj_type", "linear") == "linear", "{}: \"proj_type\" is \"{}\", expected linear",
          config.where(), config.String("proj_type", ""));
  TextTower tower;
  SequenceConfig& c = tower.config;
  c.vocabulary = config.Int("vocab_size", 49408);
  c.length = config.Int("context_length", 77);
  c.block.width = config.Int("width", 512);
  ReadBlocks(config, config.Int("heads", 8), quick_gelu, &c.block);
  c.depth = config.Int("layers", 12);
  c.causal = !config.Bool("no_causal_mask", false);
  c.outputs = embedding;
  c.head_bias = config.Bool("proj_bias", false);
  const std::string pool = config.String("pool_type", "argmax");
  Require(pool == "argmax" || pool == "eos" || pool == "last",
          "{}: \"pool_type\" is \"{}\", expected argmax, eos or last", config.where(), pool);
  c.pool = pool == "argmax" ? TokenPool::kGreatest : pool == "eos" ? TokenPool::kFirstEnd : TokenPool::kLast;
  if (c.pool == TokenPool::kFirstEnd) c.end_token = config.Int("eos_id", 2);
  if (!c.causal) Refuse(config, {"use_pad_mask"});
  tower.preparation = ReadPreparation(config);
  return tower;
}

// open_clip's transform for evaluation, which is timm's without a margin, in timm's keys.
io::Json Preprocessing(const io::Fields& config, const VitConfig& c) {
  const std::string mode = config.String("resize_mode", "shortest");
  Require(mode == "shortest" || mode == "squash" || mode == "longest",
          "{}: \"resize_mode\" is \"{}\", expected shortest, longest or squash", config.where(), mode);
  io::Json json = {{"input_size", {c.channels, c.image_height, c.image_width}},
                   {"crop_pct", 1.0},
                   {"crop_mode", mode == "shortest"  ? "center"
                                 : mode == "longest" ? "border"
                                                     : "squash"},
                   {"interpolation", config.String("interpolation", "bicubic")},
                   {"mean", {0.48145466, 0.4578275, 0.40821073}},
                   {"std", {0.26862954, 0.26130258, 0.27577711}}};
  for (const char* key : {"mean", "std"}) {
    if (config.Has(key)) json[key] = config.Value(key);
  }
  const int64_t fill = config.Int("fill_color", 0);
  Require(fill >= 0 && fill <= 255, "{}: \"fill_color\" is {}, expected 0 to 255", config.where(), fill);
  json["fill_color"] = fill;
  return json;
}

Description DescribeOpenClip(const io::Fields& file, const std::optional<io::Json>&, const io::TensorSet&) {
  const io::Fields config = file.Object("model_cfg"), vision = config.Object("vision_cfg");
  const int64_t embedding = config.RequiredInt("embed_dim");
  const bool quick_gelu = config.Bool("quick_gelu", false), timm = vision.Has("timm_model_name");
  Description description;
  VitConfig& c = description.config;
  c = timm ? ReadTimm(vision, file.Object("timm_args"), embedding) : ReadNative(vision, embedding, quick_gelu);
  c.family = Family::kOpenClip;
  description.text = ReadText(config.Object("text_cfg"), embedding, quick_gelu);
  description.text->logit_bias = config.Has("init_logit_bias");
  // Only models trained with a sigmoid have a bias.
  if (description.text->logit_bias) description.text->matching = Matching::kSigmoid;
  description.preprocess_json = Preprocessing(file.Object("preprocess_cfg"), c);
  if (!file.Has("preprocess_cfg")) {
    description.assumptions.push_back("no \"preprocess_cfg\": the shorter side is resized, OpenAI's mean and std");
  }
  return description;
}

bool AreOpenClipTensors(const io::TensorSet& tensors) {
  return tensors.Find("visual.class_embedding") || tensors.Find("visual.trunk.patch_embed.proj.weight");
}

}  // namespace

constinit const FamilyRow kOpenClip = {
    .library = Family::kOpenClip,
    .model_types = {},
    .recognises = [](const io::Fields& config) { return config.Has("model_cfg"); },
    .recognises_tensors = AreOpenClipTensors,
    .describe = DescribeOpenClip,
    .known = kKnownKeys,
    .describe_tensors = [](const io::TensorSet&, const ModelHints&) -> Description {
      Fail(
          "checkpoint: these are tensors of open_clip, which tell neither the number of heads nor the activation; put "
          "the model's open_clip_config.json beside the file");
    },
    .write_labels = [](const Description&, io::Json*) {},  // no class has a name
    .holds = [](const VitConfig& c) { return c.family == Family::kOpenClip; },
    .layout = LayoutFor,
    .text_layout = &kTextLayout,
    .preprocess = [](const Description&, const io::Fields& settings,
                     ImageSize size) { return PreprocessFromTimm(settings, size); },
    .translate = [](const Description& description) -> Translation {
      Fail("convert: {} ({}) cannot be written for open_clip:\n  qkv does not write open_clip's layout",
           description.config.architecture, Name(description.config.family));
    },
};

}  // namespace qkv::model
