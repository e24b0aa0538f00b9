// Hugging Face transformers: BEiT and data2vec-vision, without a classifier or with one. Of BeitForMaskedImageModeling
// the head that predicts visual tokens is left out; models of segmentation are refused.
#include <algorithm>
#include <array>

#include "qkv/core/error.h"
#include "qkv/model/config/preprocess_writer.h"
#include "qkv/model/families/families.h"
#include "qkv/model/families/from_tensors.h"
#include "qkv/model/families/hf_common.h"
#include "qkv/model/families/names_attention.h"
#include "qkv/model/families/preprocess_common.h"
#include "qkv/model/layout/tensor_names.h"

namespace qkv::model {
namespace {

constexpr HfType kBeit = {"beit", "Beit", "Hugging Face's BEiT"};
constexpr HfType kData2Vec = {"data2vec-vision", "Data2VecVision", "Hugging Face's data2vec-vision"};
constexpr std::string_view kModelTypes[] = {kBeit.type, kData2Vec.type};
constexpr std::string_view kPretraining = "BeitForMaskedImageModeling";

// ---------------------------------------------------------------------------------------------------------------------
// Names of tensors: those on disk, then those in memory of transformers 5

constexpr NameRow kRows[] = {
    {"rel_pos_bias.relative_position_bias_table",
     "@encoder.relative_position_bias.relative_position_bias_table|@shared_position_bias.relative_position_bias_table"},
    {"blocks.{}.norm1", "@encoder.layer.{}.layernorm_before|@layers.{}.layernorm_before"},
    {"blocks.{}.attn.qkv",
     "@encoder.layer.{}.attention.attention.query+@encoder.layer.{}.attention.attention.key+"
     "@encoder.layer.{}.attention.attention.value"
     "|@layers.{}.attention.q_proj+@layers.{}.attention.k_proj+@layers.{}.attention.v_proj"},
    {"blocks.{}.attn.qkv.bias",
     "@encoder.layer.{}.attention.attention.query.bias+0+@encoder.layer.{}.attention.attention.value.bias"
     "|@layers.{}.attention.q_proj.bias+0+@layers.{}.attention.v_proj.bias"},
    {"blocks.{}.attn.relative_position_bias_table",
     "@encoder.layer.{}.attention.attention.relative_position_bias.relative_position_bias_table"
     "|@layers.{}.relative_position_bias.relative_position_bias_table"},
    {"blocks.{}.attn.proj", "@encoder.layer.{}.attention.output.dense|@layers.{}.attention.o_proj"},
    {"blocks.{}.ls1.gamma", "@encoder.layer.{}.lambda_1|@layers.{}.lambda_1"},
    {"blocks.{}.norm2", "@encoder.layer.{}.layernorm_after|@layers.{}.layernorm_after"},
    {"blocks.{}.mlp.fc1", "@encoder.layer.{}.intermediate.dense|@layers.{}.mlp.fc1"},
    {"blocks.{}.mlp.fc2", "@encoder.layer.{}.output.dense|@layers.{}.mlp.fc2"},
    {"blocks.{}.ls2.gamma", "@encoder.layer.{}.lambda_2|@layers.{}.lambda_2"},
    {"norm", "@layernorm|layernorm"},  // the second is of the head for pretraining
    {"fc_norm", "@pooler.layernorm"},
};

constexpr std::span<const NameRow> kTables[] = {kRows, kHfRows, kAttentionKindRows};
// Older versions stored the indices into the tables.
constexpr std::string_view kIgnored[] = {"@embeddings.mask_token", "*.relative_position_index", "lm_head.*"};
constexpr Layout kLayout = {kTables, kIgnored, {}};

// ---------------------------------------------------------------------------------------------------------------------
// config.json

constexpr std::string_view kSettings[] = {"image_size",
                                          "patch_size",
                                          "num_channels",
                                          "hidden_size",
                                          "num_hidden_layers",
                                          "num_attention_heads",
                                          "intermediate_size",
                                          "hidden_act",
                                          "layer_norm_eps",
                                          "num_labels",
                                          "layer_scale_init_value",
                                          "use_absolute_position_embeddings",
                                          "use_relative_position_bias",
                                          "use_shared_relative_position_bias",
                                          "use_mean_pooling"};

io::Json DefaultPreprocessor(int64_t height, int64_t width) {
  return {{"image_processor_type", "BeitImageProcessor"}, {"size", {{"height", height}, {"width", width}}}};
}

// Throws Error for a class that has no encoder alone.
void CheckArchitecture(const io::Fields& config) {
  const std::string name = HfArchitecture(config, "");
  Require(
      name.find("Segmentation") == std::string::npos && name.find("Backbone") == std::string::npos,
      "config.json: architecture \"{}\" is not supported: qkv has no head for segmentation; load the encoder alone, "
      "as a …Model or …ForImageClassification",
      name);
}

// Final norm and pooling. The mean of the patches is normalised by the pooler, which a model may lack; otherwise all
// tokens are, and the class token is taken.
void ReadPooling(const io::Fields& config, bool pretraining, const io::TensorSet& tensors, Description* description) {
  VitConfig& c = description->config;
  const bool mean = config.Bool("use_mean_pooling", true);
  c.pool = mean ? Pool::kMean : Pool::kToken;
  c.final_norm = !mean || pretraining;
  c.fc_norm = mean && !pretraining && (tensors.tensors().empty() || FindWithSuffix(tensors, "pooler.layernorm.weight"));
  if (pretraining) {
    Require(mean,
            "config.json: {} with use_mean_pooling false is not supported: two LayerNorms in a row follow its blocks",
            kPretraining);
    description->assumptions.push_back(
        "the head that predicts visual tokens (lm_head) is left out; the output is the mean of its normalised patches");
  } else if (mean && !c.fc_norm) {
    description->assumptions.push_back("there is no pooler: the output is the mean of the patches, not normalised");
  }
}

Description DescribeBeit(const io::Fields& file, const std::optional<io::Json>& preprocessor,
                         const io::TensorSet& tensors) {
  CheckArchitecture(file);
  io::Json encoder = file.json();
  const bool pretraining = HfArchitecture(file, "") == kPretraining;
  if (pretraining) encoder["architectures"] = {"BeitModel"};
  const io::Fields config = file.With(encoder);
  const bool data2vec = config.String("model_type", "") == kData2Vec.type;
  Description description = ReadHfModel(config, data2vec ? kData2Vec : kBeit, /*patch=*/16, tensors);
  VitConfig& c = description.config;
  if (pretraining) c.architecture = kPretraining;
  c.block.attention.bias = true;
  c.block.attention.key_bias = false;
  c.block.layer_scale = config.Number("layer_scale_init_value", 0.1) > 0;
  c.positions = config.Bool("use_absolute_position_embeddings", false) ? Positions::kLearned : Positions::kNone;
  c.position_prefix = 1;
  c.shared_biases = config.Bool("use_shared_relative_position_bias", false);
  c.bias_interpolation = BiasInterpolation::kBilinear;
  if (config.Bool("use_relative_position_bias", false)) c.block.attention.bias_rows = RelativeBiasRows(c);
  ReadHfClassifier(config, &description);
  ReadPooling(config, pretraining, tensors, &description);
  SetHfPreprocessor(preprocessor, DefaultPreprocessor(c.image_height, c.image_width), &description);
  return description;
}

constexpr std::string_view kTable = "relative_position_bias_table";
constexpr std::string_view kSharedTables[] = {"encoder.relative_position_bias.relative_position_bias_table",
                                              "shared_position_bias.relative_position_bias_table"};

bool HasSharedTable(const io::TensorSet& tensors) {
  return std::ranges::any_of(kSharedTables,
                             [&](std::string_view name) { return FindWithSuffix(tensors, name) != nullptr; });
}

bool HasOwnTables(const io::TensorSet& tensors) {
  return std::ranges::any_of(
      std::array{"layer.0.attention.attention.relative_position_bias.relative_position_bias_table",
                 "layers.0.relative_position_bias.relative_position_bias_table"},
      [&](std::string_view name) { return FindWithSuffix(tensors, name) != nullptr; });
}

bool AreBeitTensors(const io::TensorSet& tensors) {
  return HasHfPatches(tensors) &&
         (HasSharedTable(tensors) || HasOwnTables(tensors) || FindWithSuffix(tensors, "0.lambda_1") ||
          FindWithSuffix(tensors, "pooler.layernorm.weight"));
}

// A table tells heads and grid; the names tell data2vec-vision only beside a classifier, and nothing depends on it.
Description DescribeBeitTensors(const io::TensorSet& tensors, const ModelHints& given) {
  const bool data2vec = BasePrefix(tensors) == "data2vec_vision.";
  ModelHints hints = given;
  const io::StoredTensor* const table = FindWithSuffix(tensors, kTable);
  if (table && table->shape.rank() == 2) hints.heads = table->shape[1];
  io::Json config = HfConfigFromTensors(tensors, hints, data2vec ? kData2Vec : kBeit);
  const bool pretraining = tensors.Find("lm_head.weight") != nullptr;
  if (pretraining) config["architectures"] = {kPretraining};
  config["use_relative_position_bias"] = HasOwnTables(tensors);
  config["use_shared_relative_position_bias"] = HasSharedTable(tensors);
  config["use_absolute_position_embeddings"] = FindWithSuffix(tensors, "embeddings.position_embeddings") != nullptr;
  config["layer_scale_init_value"] = FindWithSuffix(tensors, "0.lambda_1") ? 0.1 : 0.0;
  const std::string norm = BasePrefix(tensors) + "layernorm.weight";
  config["use_mean_pooling"] = pretraining || tensors.Find(norm) == nullptr;
  Description description = DescribeBeit(io::Fields(config, "config.json"), {}, tensors);
  NoteHfAssumptions(given, &description);
  return description;
}

// ---------------------------------------------------------------------------------------------------------------------
// Translation

void Refuse(const VitConfig& c) {
  const std::string_view who = kBeit.who;
  const auto has_no = [&](std::string_view what) { return fmt::format("{} has no {}", who, what); };
  // A model of its own without the pooler, or with the head for pretraining, is not what its class would make anew.
  const bool own_norms = c.family == Family::kHuggingFace || (c.fc_norm && !c.final_norm);
  const bool pools_mean = c.pool == Pool::kMean && !c.pool_prefix && own_norms,
             pools_token = c.pool == Pool::kToken && c.final_norm && !c.fc_norm;
  Obstructions list = CommonObstructions(c, who);
  const Obstructions own = {
      {!c.class_token || c.prefix() != 1, has_no("tokens before the patches but a class token")},
      {c.rotary != PatchRotary::kNone, has_no("rotary positions")},
      {c.image_height != c.image_width || c.patch_height != c.patch_width,
       fmt::format("{} reads tables of biases rightly on square grids of square patches only; this model's is {}x{}",
                   who, c.grid_height(), c.grid_width())},
      {c.pre_norm, has_no("LayerNorm before the blocks")},
      {!c.patch_bias, has_no("patch projection without a bias")},
      {!c.block.attention.bias, has_no("queries and values without biases")},
      {!c.block.attention.projection_bias, has_no("output projection without a bias")},
      {!c.block.mlp.bias, has_no("MLP without biases")},
      {c.block.mlp.gate != simd::Gate::kNone, has_no("gated MLP")},
      {c.block.mlp.norm, has_no("LayerNorm inside the MLP")},
      {c.block.attention.qk_norm, has_no("LayerNorm on queries and keys")},
      {c.block.attention.output_norm, has_no("LayerNorm before the output projection")},
      {c.pooler_width > 0, has_no("dense pooler")},
      {!pools_mean && !pools_token,
       fmt::format("{} normalises the mean of its patches, or takes the normalised class token; this model {}", who,
                   DescribePool(c.pool))},
  };
  list.insert(list.end(), own.begin(), own.end());
  RefuseObstructed(c, Family::kHuggingFace, list);
}

Translation TranslateToBeit(const Description& description) {
  const VitConfig& c = description.config;
  Refuse(c);
  const bool own = c.family == Family::kHuggingFace, data2vec = own && c.architecture.starts_with(kData2Vec.stem);
  Translation translation;
  translation.names_dtype = true;
  translation.config = {{"architectures", {own ? c.architecture : HfClass(c, kBeit)}},
                        {"model_type", data2vec ? kData2Vec.type : kBeit.type},
                        {"image_size", c.image_height},
                        {"patch_size", c.patch_height},
                        {"num_channels", c.channels},
                        {"hidden_size", c.block.width},
                        {"num_hidden_layers", c.depth},
                        {"num_attention_heads", c.block.attention.heads},
                        {"intermediate_size", c.block.mlp.width},
                        {"hidden_act", HfName(c.block.mlp.activation)},
                        {"layer_norm_eps", c.block.norm.eps},
                        {"layer_scale_init_value", c.block.layer_scale ? 0.1 : 0.0},
                        {"use_absolute_position_embeddings", c.positions == Positions::kLearned},
                        {"use_relative_position_bias", c.block.attention.bias_rows > 0},
                        {"use_shared_relative_position_bias", c.shared_biases},
                        {"use_mean_pooling", c.pool == Pool::kMean},
                        {"use_mask_token", false},
                        {"attention_probs_dropout_prob", 0.0},
                        {"hidden_dropout_prob", 0.0}};
  EndHfTranslation(description, kBeit, Interpolation::kBicubic, &translation);
  return translation;
}

bool HoldsModel(const VitConfig& c) {
  if (c.family != Family::kHuggingFace) return c.has_relative_biases();
  return c.architecture.starts_with(kBeit.stem) || c.architecture.starts_with(kData2Vec.stem);
}

}  // namespace

constinit const FamilyRow kHfBeit = {
    .library = Family::kHuggingFace,
    .model_types = kModelTypes,
    .recognises = [](const io::Fields& config) { return HasModelType(config, kModelTypes); },
    .recognises_tensors = AreBeitTensors,
    .describe = DescribeBeit,
    .known = kHfImageKeys,
    .describe_tensors = DescribeBeitTensors,
    .settings = kSettings,
    .preprocess_settings = kHfPreprocessKeys,
    .arguments = [](io::Json& config) -> io::Json& { return config; },
    .change_preprocess = ChangeHfPreprocess,
    .write_labels = WriteHfLabels,
    .holds = HoldsModel,
    .layout = [](const VitConfig&) -> const Layout& { return kLayout; },
    .preprocess = PreprocessOfHf,
    .preprocess_known = kHfProcessorKeys,
    .translate = TranslateToBeit,
};

}  // namespace qkv::model
