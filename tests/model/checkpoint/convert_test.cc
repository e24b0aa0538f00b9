// Conversion: every golden in its own layout and, where the other library can express it, there and back; what it
// cannot, by name; types; folders that appear whole or not at all.
#include "qkv/model/checkpoint/convert.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <thread>

#include "qkv/core/file.h"
#include "qkv/core/rng.h"
#include "qkv/core/temporary.h"
#include "qkv/model/checkpoint/separate.h"
#include "qkv/model/config/separation.h"
#include "qkv/model/families/describe.h"
#include "qkv/model/layout/bound_tensor.h"
#include "qkv/model/layout/translation.h"
#include "qkv/model/model.h"
#include "tests/support/checkpoints.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/support/goldens.h"

namespace qkv::model {
namespace {

namespace fs = std::filesystem;

// What the other library cannot express, a part of the message.
const std::map<std::string, std::string> kRefused = {
    {"detector", "no detection tokens"},
    {"hf_beit_non_square", "the tables of a grid that is not square in another order"},
    {"hf_data2vec_model_resized", "model without a final LayerNorm"},
    {"segmenter", "no query tokens"},
    {"segmenter_semantic", "no query tokens"},
    {"hf_deit", "this one reads the class token only"},
    {"hf_deit_model", "no pooler"},
    {"hf_dinov2", "class token and mean side by side"},
    {"hf_dinov2_registers", "class token and mean side by side"},
    {"hf_dinov2_registers_resized", "class token and mean side by side"},
    {"hf_clip", "no projection of the pooled vector"},
    {"hf_clip_bf16", "no projection of the pooled vector"},
    {"hf_clip_end", "no projection of the pooled vector"},
    {"hf_clip_resized", "no projection of the pooled vector"},
    {"hf_clip_vision_projection", "no projection of the pooled vector"},
    {"hf_dinov2_resized", "class token and mean side by side"},
    {"hf_dinov2_swiglu", "class token and mean side by side"},
    {"hf_dinov3_key_bias", "no output projection without a bias"},
    {"hf_dinov3_new_names", "no gelu in a gated MLP"},
    {"hf_vit_model_new_names", "no pooler"},
    {"hf_vit_model_pooler", "no pooler"},
    {"hf_vit_model_pooler_narrow", "no pooler"},
    {"hf_eomt", "no query tokens"},
    {"hf_eomt_dinov3", "no query tokens"},
    {"hf_eomt_dinov3_gated", "no query tokens"},
    {"hf_eomt_semantic", "no query tokens"},
    {"hf_eomt_swiglu", "no query tokens"},
    {"hf_yolos", "no detection tokens"},
    {"hf_yolos_model", "no detection tokens"},
    {"hf_yolos_plain", "no detection tokens"},
    {"hf_yolos_resized", "no detection tokens"},
    {"timm_avg_fcnorm", "this model pools by the mean of its tokens"},
    {"timm_avg_include_prefix", "this model pools by the mean of its tokens"},
    {"timm_avg_norm", "no model without a class token"},
    {"timm_aimv2", "no RMSNorm"},
    {"timm_avgmax", "this model pools by half mean, half maximum"},
    {"timm_beit", "on square grids of square patches only"},
    {"timm_beit_both", "no gated MLP"},
    {"timm_bf16", "Dinov2ForImageClassification reads class token and mean; this model takes the class token"},
    {"timm_clip", "no LayerNorm before the blocks"},
    {"timm_clip_projection", "no projection of the pooled vector"},
    {"timm_cls_avg", "no LayerNorm after pooling"},
    {"timm_deit3", "Dinov2ForImageClassification reads class token and mean"},
    {"timm_dinov3", "Hugging Face's DINOv3 has no classifier"},
    {"timm_dinov3_plus", "gives the class token; this model pools by the mean"},
    {"timm_dinov3_resized", "no classifier"},
    {"timm_differential", "no differential attention: a head's weights are the difference of two softmaxes"},
    {"timm_differential_resized", "no differential attention"},
    {"timm_differential_parallel", "no MLP beside attention"},
    {"timm_distilled_features", "with the mean of its two tokens"},
    {"timm_eva", "this model pools by the mean of its tokens"},
    {"timm_eva02", "no positions but rotary ones of coordinates from -1 to 1"},
    {"timm_eva02_clip", "no positions but rotary ones of coordinates from -1 to 1"},
    {"timm_eva02_output_norms", "no norm of the layers' outputs"},
    {"timm_eva02_projection", "no projection of the pooled vector"},
    {"timm_eva02_norms", "no positions but rotary ones of coordinates from -1 to 1"},
    {"timm_eva02_resized", "no positions but rotary ones of coordinates from -1 to 1"},
    {"timm_eva_qk_norm", "no positions but rotary ones of coordinates from -1 to 1"},
    {"timm_geglu", "no gated MLP but with silu"},
    {"timm_kind_gaussian", "no gaussian attention: scores of gaussian attention do not come from queries and keys"},
    {"timm_kind_gaussian_gap", "no gaussian attention"},
    {"timm_kind_merged", "no merged attention: merged attention has a matrix of its own for each head"},
    {"timm_kind_merged_no_bias", "no merged attention"},
    {"timm_kind_positional", "no positional attention"},
    {"timm_kind_shared_qk_norm", "no LayerNorm on queries and keys"},
    {"timm_layerscale", "Dinov2ForImageClassification reads class token and mean"},
    {"timm_map", "this model pools by attention"},
    {"timm_map_cls", "this model pools by attention"},
    {"timm_max", "this model pools by the maximum"},
    {"timm_no_final_norm", "no model without a final LayerNorm"},
    {"timm_no_pos_embed", "no model without position embeddings"},
    {"timm_output_norms", "no norm of the layers' outputs"},
    {"timm_parallel", "no MLP beside attention"},
    {"timm_parallel_biases", "no MLP beside attention"},
    {"timm_parallel_scaled", "no MLP beside attention"},
    {"timm_pe_core", "no positions but rotary ones of coordinates from -1 to 1"},
    {"timm_pe_core_no_token", "no positions but rotary ones of coordinates from -1 to 1"},
    {"timm_pe_core_resized", "no positions but rotary ones of coordinates from -1 to 1"},
    {"timm_pe_lang", "no positions but rotary ones of coordinates from -1 to 1"},
    {"timm_pe_spatial", "no positions but rotary ones of coordinates from -1 to 1"},
    {"timm_pre_norm", "no patch projection without a bias"},
    {"timm_proj_bias_off", "no MLP without biases"},
    {"timm_qk_norm", "no LayerNorm on queries and keys"},
    {"timm_reg1_gap_embed", "no register tokens"},
    {"timm_reg4_cls", "Hugging Face's ViT has no register tokens"},
    {"timm_reg4_gap", "no model without a class token"},
    {"timm_reg4_noembed", "no register tokens"},
    {"timm_resized_down", "no register tokens"},
    {"timm_resized_noembed", "no register tokens"},
    {"timm_rms", "no RMSNorm"},
    {"timm_rms_qk_norm", "no RMSNorm"},
    {"timm_rope_axial", "no positions but rotary ones of coordinates from -1 to 1"},
    {"timm_rope_axial_resized", "no positions but rotary ones of coordinates from -1 to 1"},
    {"timm_rope_gap", "no positions but rotary ones of coordinates from -1 to 1"},
    {"timm_rope_gap_no_bias", "no positions but rotary ones of coordinates from -1 to 1"},
    {"timm_rope_gap_resized", "no positions but rotary ones of coordinates from -1 to 1"},
    {"timm_rope_mixed", "no positions but rotary ones of coordinates from -1 to 1"},
    {"timm_rope_mixed_ape", "no positions but rotary ones of coordinates from -1 to 1"},
    {"timm_rope_mixed_resized", "no positions but rotary ones of coordinates from -1 to 1"},
    {"timm_scale_norms", "no LayerNorm inside the MLP"},
    {"timm_siglip_gap", "this model pools by the mean"},
    {"timm_swiglu", "no gated MLP"},
    {"timm_swiglu_packed", "Dinov2ForImageClassification reads class token and mean"},
};

// timm can say these; qkv does not write their own layout, or not without biases or with the head for pretraining.
bool HasOneWay(const Description& description) {
  const VitConfig& c = description.config;
  const bool beit = c.architecture.starts_with("Beit") &&
                    (!c.has_relative_biases() || c.architecture == "BeitForMaskedImageModeling");
  return beit || c.architecture.starts_with("CLIP") || c.architecture.starts_with("Siglip");
}

std::vector<std::string> Cases() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(GoldenFolder(""))) {
    if (fs::exists(entry.path() / "config.json")) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// By canonical name, in the table's shape.
std::map<std::string, Tensor<float>> Canonical(const Checkpoint& checkpoint) {
  std::map<std::string, Tensor<float>> result;
  for (const BoundTensor& bound : checkpoint.bound) {
    result.emplace(bound.spec.name, Read<float>(bound));
  }
  return result;
}

void ExpectSameTensors(const Checkpoint& a, const Checkpoint& b) {
  const auto x = Canonical(a), y = Canonical(b);
  ASSERT_EQ(x.size(), y.size());
  for (const auto& [name, tensor] : x) {
    ASSERT_TRUE(y.contains(name)) << name;
    ASSERT_EQ(tensor.shape(), y.at(name).shape()) << name;
    EXPECT_TRUE(std::ranges::equal(tensor.span(), y.at(name).span())) << name;
  }
}

Tensor<float> Logits(const Checkpoint& checkpoint, const Tensor<float>& pixels) {
  return Model(checkpoint).Logits(pixels);
}

// The same arithmetic in the same order, so the same bits.
void ExpectSameLogits(const Checkpoint& a, const Checkpoint& b) {
  const VitConfig& c = a.description.config;
  const auto pixels = Sampler(7).Normal<float>({2, c.channels, c.image_height, c.image_width});
  EXPECT_TRUE(std::ranges::equal(Logits(a, pixels).span(), Logits(b, pixels).span()));
}

class GoldenConversion : public testing::TestWithParam<std::string> {
 protected:
  // The golden or, where its attention is of a kind that only qkv has, what it is with separate queries and keys.
  Checkpoint Separate() {
    const VitConfig& c = original_.description.config;
    if (c.block.attention.kind == nn::AttentionKind::kSeparate || !SeparationObstruction(c).empty()) {
      return Checkpoint::Open(GoldenFolder(GetParam()));
    }
    Convert(original_, folder_ / "separate", {.layout = c.family});
    Checkpoint separate = Checkpoint::Open(folder_ / "separate");
    EXPECT_EQ(Differences(AsSeparate(c), separate.description.config), std::vector<std::string>());
    EXPECT_FALSE(io::ReadJson(folder_ / "separate/config.json").contains("qkv_attention"));
    const auto pixels = Sampler(7).Normal<float>({2, c.channels, c.image_height, c.image_width});
    const Tensor<float> logits = Logits(original_, pixels), expanded = Logits(separate, pixels);
    float greatest = 0;
    for (const float logit : logits.span()) greatest = std::max(greatest, std::abs(logit));
    // The same scores of the same projections, rounded as those of two blocks are (savings_test).
    for (int64_t i = 0; i < logits.size(); ++i) EXPECT_NEAR(expanded[i], logits[i], 64 * 1.2e-7 * greatest);
    return separate;
  }

  TemporaryFolder folder_;
  Checkpoint original_ = Checkpoint::Open(GoldenFolder(GetParam()));
};
INSTANTIATE_TEST_SUITE_P(Goldens, GoldenConversion, testing::ValuesIn(Cases()),
                         [](const auto& golden) { return golden.param; });

// Rotary positions are qkv's own word in a family's config.json: rewriting the kind of attention keeps it, and no
// library takes it.
TEST(RotaryConversion, IsKeptInTheOwnLayoutAndRefusedElsewhere) {
  const TemporaryFolder folder;
  fs::copy(GoldenFolder("timm_kind_shared"), folder / "rotary", fs::copy_options::recursive);
  io::Json config = io::ReadJson(folder / "rotary/config.json");
  config["qkv_rotary"] = "patches", config["qkv_rotary_base"] = 50;
  WriteFile(folder / "rotary/config.json", config.dump());
  const Checkpoint original = Checkpoint::Open(folder / "rotary");
  EXPECT_EQ(original.description.config.rotary, PatchRotary::kPatches);
  Convert(original, folder / "separate", {.layout = Family::kTimm});
  const Checkpoint separate = Checkpoint::Open(folder / "separate");
  EXPECT_EQ(Differences(AsSeparate(original.description.config), separate.description.config),
            std::vector<std::string>());
  const VitConfig& c = original.description.config;
  const auto pixels = Sampler(7).Normal<float>({2, c.channels, c.image_height, c.image_width});
  const Tensor<float> logits = Logits(original, pixels), expanded = Logits(separate, pixels);
  const Tensor<float> unturned = Logits(Checkpoint::Open(GoldenFolder("timm_kind_shared")), pixels);
  for (int64_t i = 0; i < logits.size(); ++i) EXPECT_NEAR(expanded[i], logits[i], 64 * 1.2e-7 * 10);
  EXPECT_FALSE(std::ranges::equal(logits.span(), unturned.span()));
  EXPECT_THROW(Convert(separate, folder / "hf", {.layout = Family::kHuggingFace}), Error);
}

TEST_P(GoldenConversion, KeepsItsOwnLayout) {
  const Converted converted = Convert(original_, folder_ / "out", {});
  EXPECT_TRUE(converted.notes.empty());
  const Checkpoint copy = Checkpoint::Open(folder_ / "out");
  const auto &before = original_.tensors->tensors(), &after = copy.tensors->tensors();
  ASSERT_EQ(before.size(), after.size());
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(before[i].name, after[i].name);
    EXPECT_EQ(before[i].dtype, after[i].dtype);
    EXPECT_EQ(before[i].shape, after[i].shape);
    EXPECT_TRUE(std::ranges::equal(before[i].bytes, after[i].bytes)) << before[i].name;
  }
  EXPECT_EQ(ReadFile(folder_ / "out/config.json"), ReadFile(GoldenFolder(GetParam()) / "config.json"));
  EXPECT_TRUE(Differences(original_.description.config, copy.description.config).empty());
}

// Names that the caller gave, or qkv assumed, in each family's keys; also for models that no other library has.
TEST_P(GoldenConversion, WritesNamesThatItsFilesDoNotHave) {
  Description& description = original_.description;
  const int64_t classes = description.config.named_classes();
  if (classes == 0) return;  // without a classifier there is nothing to name
  description.labels.resize(static_cast<size_t>(classes));
  for (int64_t i = 0; i < classes; ++i) {
    description.labels[static_cast<size_t>(i)] = fmt::format("name {}", i / 2);  // two classes may share a name
  }
  description.label_source = LabelSource::kCaller;
  Convert(original_, folder_ / "out", {});
  EXPECT_EQ(Checkpoint::Open(folder_ / "out").description.labels, description.labels);
}

TEST_P(GoldenConversion, GoesThereAndBackOrSaysWhyNot) {
  const Family own = original_.description.config.family;
  const Family other = own == Family::kTimm ? Family::kHuggingFace : Family::kTimm;
  const auto refused = kRefused.find(GetParam());
  if (own == Family::kVitPytorch || refused != kRefused.end()) {
    const std::string message = ErrorMessage([&] { Convert(original_, folder_ / "there", {.layout = other}); });
    const std::string reason = own == Family::kVitPytorch ? "norm around the patch projection" : refused->second;
    EXPECT_NE(message.find(reason), std::string::npos) << "the message is: " << message;
    EXPECT_EQ(folder_.Count(), 0);
    return;
  }
  original_ = Separate();
  Convert(original_, folder_ / "there", {.layout = other});
  const Checkpoint there = Checkpoint::Open(folder_ / "there");
  EXPECT_EQ(there.description.config.family, other);
  EXPECT_TRUE(there.description.assumptions.empty());
  EXPECT_EQ(Differences(original_.description.config, there.description.config), std::vector<std::string>());
  EXPECT_EQ(original_.description.config.block.norm.eps, there.description.config.block.norm.eps);
  ExpectSameLogits(original_, there);
  if (HasOneWay(original_.description)) {
    EXPECT_THROW(Convert(there, folder_ / "back", {.layout = own}), Error);
    return;
  }

  if (GetParam().starts_with("hf_ijepa")) {  // ViT, which would take it back, needs a class token
    const std::string message = ErrorMessage([&] { Convert(there, folder_ / "back", {.layout = own}); });
    EXPECT_NE(message.find("no model without a class token"), std::string::npos) << message;
    return;
  }
  Convert(there, folder_ / "back", {.layout = own});
  const Checkpoint back = Checkpoint::Open(folder_ / "back");
  EXPECT_EQ(Differences(original_.description.config, back.description.config), std::vector<std::string>());
  EXPECT_EQ(original_.description.config.block.norm.eps, back.description.config.block.norm.eps);
  EXPECT_EQ(original_.description.config.position_prefix, back.description.config.position_prefix);
  ExpectSameTensors(original_, back);
  for (const BoundTensor& bound : back.bound) {
    EXPECT_EQ(bound.parts[0]->dtype, original_.tensors->tensors()[0].dtype) << bound.spec.name;
  }
  for (const Checkpoint* checkpoint : {&there, &back}) {
    const std::vector<std::string>& labels = original_.description.labels;
    if (labels.empty()) continue;
    EXPECT_EQ(checkpoint->description.labels, labels);
  }
}

TEST_P(GoldenConversion, GoesToVitPytorchOnlyFromThere) {
  const std::string message =
      ErrorMessage([&] { Convert(original_, folder_ / "out", {.layout = Family::kVitPytorch}); });
  if (original_.description.config.family == Family::kVitPytorch) {
    EXPECT_EQ(message, "");
  } else {
    EXPECT_NE(message.find("cannot be written for vit-pytorch"), std::string::npos) << message;
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Positions of the tokens before the patches

class Registers : public testing::Test {
 protected:
  // DINOv2 without a classifier, three registers.
  Checkpoint Make(bool no_embed_class) {
    io::Json config = TinyConfig();
    config["num_classes"] = config["pretrained_cfg"]["num_classes"] = 0;
    config["model_args"].update(
        {{"reg_tokens", 3}, {"init_values", 1.0}, {"no_embed_class", no_embed_class}, {"num_classes", 0}});
    fs::create_directory(folder_ / "in");
    WriteFile(folder_ / "in/config.json", config.dump());
    TensorSet(DescribeTimm(config).config).Write(folder_ / "in/model.safetensors");
    return Checkpoint::Open(folder_ / "in");
  }
  Checkpoint Converted(const Checkpoint& from) {
    Convert(from, folder_ / "out", {.layout = Family::kHuggingFace});
    return Checkpoint::Open(folder_ / "out");
  }
  TemporaryFolder folder_;
};

TEST_F(Registers, TakeTheirPositionsAlong) {
  const Checkpoint timm = Make(/*no_embed_class=*/false), hf = Converted(timm);
  EXPECT_EQ(hf.description.config.architecture, "Dinov2WithRegistersModel");
  auto before = Canonical(timm), after = Canonical(hf);
  constexpr int64_t kWidth = 16;
  for (int64_t i = 0; i < 3 * kWidth; ++i) {
    EXPECT_EQ(after["reg_token"][i], before["reg_token"][i] + before["pos_embed"][kWidth + i]);
  }
  EXPECT_TRUE(std::ranges::equal(after["cls_token"].span(), before["cls_token"].span()));
  EXPECT_EQ(after["pos_embed"].shape(), Shape({1, 5, kWidth}));
  EXPECT_EQ(after["pos_embed"][0], before["pos_embed"][0]);
  EXPECT_EQ(after["pos_embed"][kWidth], before["pos_embed"][4 * kWidth]);
  ExpectSameLogits(timm, hf);
}

TEST_F(Registers, WithoutPositionsGetNone) {
  const Checkpoint timm = Make(/*no_embed_class=*/true), hf = Converted(timm);
  auto after = Canonical(hf);
  EXPECT_EQ(after["pos_embed"].shape(), Shape({1, 5, 16}));
  for (int64_t i = 0; i < 16; ++i) EXPECT_EQ(after["pos_embed"][i], 0);
  EXPECT_NE(hf.tensors->Find("embeddings.mask_token"), nullptr);  // the class always has one
  ExpectSameLogits(timm, hf);
}

// ---------------------------------------------------------------------------------------------------------------------
// Types

class Conversion : public testing::Test {
 protected:
  Conversion() : config_(TinyConfig()), tensors_(DescribeTimm(config_).config) { fs::create_directory(In()); }

  Checkpoint Open() {
    WriteFile(In() / "config.json", config_.dump());
    tensors_.Write(In() / "model.safetensors");
    return Checkpoint::Open(In());
  }
  fs::path In() const { return folder_ / "in"; }
  fs::path Out() const { return folder_ / "out"; }

  TemporaryFolder folder_;
  io::Json config_;
  TensorSet tensors_;
};

TEST_F(Conversion, NarrowsToHalfPrecision) {
  const Checkpoint original = Open();
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    for (const Family layout : {Family::kTimm, Family::kHuggingFace}) {
      Convert(original, Out(), {.layout = layout, .dtype = dtype, .force = true});
      const Checkpoint half = Checkpoint::Open(Out());
      for (const io::StoredTensor& tensor : half.tensors->tensors()) EXPECT_EQ(tensor.dtype, dtype) << tensor.name;
      const auto before = Canonical(original), after = Canonical(half);
      for (const auto& [name, tensor] : before) {
        for (int64_t i = 0; i < tensor.size(); ++i) {
          const float x = tensor[i];
          EXPECT_EQ(after.at(name)[i], dtype == DType::kF16 ? ToFloat(ToHalf(x)) : ToFloat(ToBFloat16(x))) << name;
        }
      }
    }
  }
}

TEST_F(Conversion, RefusesWhatATypeCannotHold) {
  tensors_.at("blocks.1.mlp.fc2.bias")[3] = -65520;  // the least that rounds to infinity
  const Checkpoint original = Open();
  for (const Family layout : {Family::kTimm, Family::kHuggingFace}) {
    const std::string message =
        ErrorMessage([&] { Convert(original, Out(), {.layout = layout, .dtype = DType::kF16}); });
    EXPECT_NE(message.find("blocks.1.mlp.fc2.bias"), std::string::npos) << message;
    EXPECT_NE(message.find("-65520"), std::string::npos) << message;
  }
  EXPECT_EQ(folder_.Count(), 1);  // only the input
  Convert(original, Out(), {.dtype = DType::kBF16});
  EXPECT_NE(ErrorMessage([&] { Convert(original, folder_ / "x", {.dtype = DType::kI64}); }), "");
}

TEST_F(Conversion, HuggingFaceNotesItsType) {
  const Checkpoint original = Checkpoint::Open(GoldenFolder("hf_vit"));
  Convert(original, Out(), {.dtype = DType::kBF16});
  EXPECT_EQ(io::ReadJson(Out() / "config.json")["dtype"], "bfloat16");
  Convert(Open(), Out(), {.layout = Family::kHuggingFace, .dtype = DType::kF16, .force = true});
  EXPECT_EQ(io::ReadJson(Out() / "config.json")["dtype"], "float16");
}

// As facebook/dinov2-base: trained at one size, preprocessed to another.
TEST_F(Conversion, KeepsAPreprocessedSizeThatIsNotTheTrainedOne) {
  config_["pretrained_cfg"]["input_size"] = {1, 12, 12};
  config_["pretrained_cfg"]["fixed_input_size"] = false;
  config_["model_args"]["dynamic_img_size"] = true;
  const Checkpoint original = Open();
  const Converted there = Convert(original, Out(), {.layout = Family::kHuggingFace});
  EXPECT_NE(there.notes.back().find("interpolate_pos_encoding"), std::string::npos) << there.notes.back();
  Convert(Checkpoint::Open(Out()), folder_ / "back", {.layout = Family::kTimm});
  const Description back = Checkpoint::Open(folder_ / "back").description;
  EXPECT_EQ(back.config.image_height, 8);
  EXPECT_EQ(back.preprocess.crop_height, 12);
}

// ---------------------------------------------------------------------------------------------------------------------
// Folders

TEST_F(Conversion, RefusesAFolderThatIsNotEmpty) {
  const Checkpoint original = Open();
  fs::create_directory(Out());
  Convert(original, Out(), {});  // empty: as good as missing
  WriteFile(Out() / "note.txt", "mine");
  EXPECT_NE(ErrorMessage([&] { Convert(original, Out(), {}); }).find("not empty"), std::string::npos);
  EXPECT_NE(ErrorMessage([&] { Convert(original, Out() / "note.txt", {.force = true}); }).find("no folder"),
            std::string::npos);
  Convert(original, Out(), {.layout = Family::kHuggingFace, .force = true});
  Convert(original, Out(), {.force = true});
  EXPECT_EQ(ReadFile(Out() / "note.txt"), "mine");
  EXPECT_FALSE(fs::exists(Out() / "preprocessor_config.json"));  // of the model that was replaced
  ExpectSameTensors(original, Checkpoint::Open(Out()));
}

TEST_F(Conversion, MakesParentsAndTakesATrailingSlash) {
  Convert(Open(), folder_ / "a/b/c/", {});
  Checkpoint::Open(folder_ / "a/b/c");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_ / "a/b"), {}), 1);
}

// With --force the folder is the old model, the new one, or an error, at every instant.
TEST_F(Conversion, ReplacesAModelInOneInstant) {
  const Checkpoint original = Open();
  Convert(original, Out(), {});
  fs::create_directories(Out() / "onnx/more");
  WriteFile(Out() / "onnx/more/model.onnx", "theirs");
  WriteFile(Out() / "model-00001-of-00001.safetensors", "of the old model");
  fs::create_symlink("nowhere", Out() / "dangling");
  std::atomic<bool> done = false;
  std::thread writer([&] {
    for (int i = 0; i < 40; ++i) {
      Convert(original, Out(), {.layout = i % 2 == 0 ? Family::kHuggingFace : Family::kTimm, .force = true});
    }
    done = true;
  });
  int read = 0;
  while (!done) {
    try {
      const Checkpoint now = Checkpoint::Open(Out());
      ++read;
      EXPECT_EQ(Canonical(now).size(), Canonical(original).size());
    } catch (const Error&) {
    }
  }
  writer.join();
  EXPECT_GT(read, 0);
  EXPECT_EQ(ReadFile(Out() / "onnx/more/model.onnx"), "theirs");
  EXPECT_EQ(fs::read_symlink(Out() / "dangling"), "nowhere");
  EXPECT_FALSE(fs::exists(Out() / "model-00001-of-00001.safetensors"));
  EXPECT_EQ(folder_.Count(), 2);  // the input, and this
}

TEST_F(Conversion, KilledAtAnyInstantItLeavesAModel) {
  const Checkpoint original = Open();
  Convert(original, Out(), {});
  WriteFile(Out() / "note.txt", "mine");
  Rng random(1);
  for (int i = 0; i < 30; ++i) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      for (int k = 0;; ++k) {
        Convert(original, Out(), {.layout = k % 2 == 0 ? Family::kHuggingFace : Family::kTimm, .force = true});
      }
    }
    ::usleep(static_cast<useconds_t>(random.Next() % 20'000));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    ASSERT_EQ(Canonical(Checkpoint::Open(Out())).size(), Canonical(original).size());
    ASSERT_EQ(ReadFile(Out() / "note.txt"), "mine");
  }
  Convert(original, Out(), {.force = true});
  EXPECT_EQ(folder_.Count(), 2);  // the input, and this: nothing of those that were killed
}

TEST_F(Conversion, KeepsPermissionsOfWhatItReplaces) {
  Convert(Open(), Out(), {});
  fs::permissions(Out() / "model.safetensors", fs::perms::owner_read | fs::perms::owner_write);
  fs::permissions(Out() / "config.json", fs::perms::owner_read | fs::perms::owner_write);
  fs::permissions(Out(), fs::perms::owner_all);
  Convert(Open(), Out(), {.layout = Family::kHuggingFace, .force = true});
  EXPECT_EQ(fs::status(Out()).permissions(), fs::perms::owner_all);
  for (const char* name : {"model.safetensors", "config.json", "preprocessor_config.json"}) {
    EXPECT_EQ(fs::status(Out() / name).permissions(), fs::perms::owner_read | fs::perms::owner_write) << name;
  }
}

TEST_F(Conversion, DoesNotReplaceTheWorkingDirectory) {
  Convert(Open(), Out(), {});
  const fs::path before = fs::current_path();
  fs::current_path(Out());
  const std::string message = ErrorMessage([&] { Convert(Open(), ".", {.force = true}); });
  fs::current_path(before);
  EXPECT_NE(message.find("is the working directory"), std::string::npos) << message;
  Checkpoint::Open(Out());
}

TEST_F(Conversion, ReplacesWhatALinkLeadsTo) {
  Convert(Open(), Out(), {});
  WriteFile(Out() / "note.txt", "mine");
  fs::create_directory_symlink(Out(), folder_ / "link");
  Convert(Open(), folder_ / "link", {.layout = Family::kHuggingFace, .force = true});
  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
  EXPECT_EQ(Checkpoint::Open(Out()).description.config.family, Family::kHuggingFace);
  EXPECT_EQ(ReadFile(Out() / "note.txt"), "mine");
}

// What another process of the same number left behind, or still writes, is neither published nor touched.
TEST_F(Conversion, LeavesTheWorkOfOthersAlone) {
  fs::path stale = Out();
  stale += fmt::format(".part-{}", ::getpid());
  fs::create_directory(stale);
  WriteFile(stale / "note.txt", "theirs");
  Convert(Open(), Out(), {});
  Checkpoint::Open(Out());
  EXPECT_FALSE(fs::exists(Out() / "note.txt"));
  EXPECT_EQ(ReadFile(stale / "note.txt"), "theirs");
}

// Names that killed writers left are taken away, but not what a live one writes or what came from elsewhere.
TEST_F(Conversion, RemovesWhatKilledWritersLeft) {
  const auto left = [&](int number) {
    const fs::path folder = TemporaryName(Out(), number);
    fs::create_directories(folder / "sub");
    for (const char* name : {"model.safetensors", "sub/note.txt"}) WriteFile(folder / name, "left");
    return folder;
  };
  const fs::path unfinished = left(1), former = left(2), live = left(3);
  for (const fs::path& folder : {unfinished, live}) WriteFile(folder / ".qkv-unfinished", "");
  const int lock = ::open(live.c_str(), O_RDONLY | O_DIRECTORY);
  ASSERT_EQ(::flock(lock, LOCK_EX), 0);
  Convert(Open(), Out(), {});
  ::close(lock);
  EXPECT_FALSE(fs::exists(unfinished));
  EXPECT_FALSE(fs::exists(former / "model.safetensors"));
  EXPECT_EQ(ReadFile(former / "sub/note.txt"), "left");
  EXPECT_EQ(ReadFile(live / "model.safetensors"), "left");
  EXPECT_FALSE(fs::exists(Out() / ".qkv-unfinished"));
  Convert(Open(), Out(), {.force = true});
  EXPECT_FALSE(fs::exists(live));
  EXPECT_FALSE(fs::exists(Out() / ".qkv-unfinished"));
}

TEST_F(Conversion, InPlaceWithForce) {
  const auto before = Canonical(Open());
  Convert(Open(), In(), {.layout = Family::kHuggingFace, .force = true});
  const Checkpoint after = Checkpoint::Open(In());
  EXPECT_EQ(after.description.config.family, Family::kHuggingFace);
  EXPECT_TRUE(std::ranges::equal(before.at("head.weight").span(), Canonical(after).at("head.weight").span()));
}

TEST_F(Conversion, LeavesNothingBehindWhenItFails) {
  const Checkpoint original = Open();
  WriteFile(folder_ / "file", "");
  EXPECT_NE(ErrorMessage([&] { Convert(original, folder_ / "file/out", {}); }), "");
  EXPECT_EQ(folder_.Count(), 2);
}

TEST_F(Conversion, ABareFileGetsAConfiguration) {
  Open();
  fs::remove(In() / "config.json");
  const Checkpoint bare = Checkpoint::Open(In() / "model.safetensors", {.heads = 4, .mean = {0.5}, .std = {0.5}});
  const Converted converted = Convert(bare, Out(), {});
  EXPECT_FALSE(converted.notes.empty());
  const Checkpoint copy = Checkpoint::Open(Out());
  EXPECT_EQ(Differences(bare.description.config, copy.description.config), std::vector<std::string>());
  EXPECT_TRUE(copy.description.assumptions.empty());
}

}  // namespace
}  // namespace qkv::model
