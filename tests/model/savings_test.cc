// The exact savings: each leaves the logits what they are, up to the rounding of the weights that it changes.
#include <gtest/gtest.h>

#include <cmath>

#include "qkv/model/blocks/attention_orders.h"
#include "qkv/model/checkpoint/checkpoint.h"
#include "qkv/model/families/describe.h"
#include "qkv/model/vision/vit.h"
#include "tests/support/goldens.h"
#include "tests/support/sampler.h"

namespace qkv::model {
namespace {

constexpr BuildOptions kNone{.fold_norms = false,
                             .fold_scales = false,
                             .fold_key_value_bias = false,
                             .read_rows = false,
                             .merge = false,
                             .absorb = false};

template <typename T>
Tensor<T> Logits(const Checkpoint& checkpoint, const BuildOptions& options) {
  const VitConfig& c = checkpoint.description.config;
  const Vit<T> vit(c, checkpoint.bound, options);
  const Tensor<T> pixels = Cast<T>(Sampler(7).Normal<float>({2, c.channels, c.image_height, c.image_width}));
  Tensor<T> logits({2, c.outputs()});
  Workspace<T> workspace;
  vit.Forward(pixels, workspace, {.logits = logits});
  return logits;
}

template <typename T>
double RelativeDifference(const Tensor<T>& a, const Tensor<T>& b) {
  double difference = 0, greatest = 1e-300;
  for (int64_t i = 0; i < a.size(); ++i) {
    difference = std::max(difference, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
    greatest = std::max(greatest, std::abs(static_cast<double>(b[i])));
  }
  return difference / greatest;
}

class Savings : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Models, Savings,
                         testing::Values("timm_vit", "timm_layerscale", "timm_scale_norms", "timm_qk_norm",
                                         "timm_swiglu", "timm_qkv_bias_off", "timm_proj_bias_off", "timm_distilled",
                                         "hf_dinov2_swiglu", "hf_vit", "timm_map", "vit_pytorch_vit",
                                         "vit_pytorch_one_head", "timm_one_head_wide", "timm_kind_shared",
                                         "timm_kind_unified", "timm_kind_shared_kv", "timm_kind_merged",
                                         "timm_kind_low_rank", "timm_kind_symmetric", "timm_kind_gaussian",
                                         "timm_kind_positional", "timm_differential", "timm_differential_resized",
                                         "timm_kind_shared_qk_norm", "hf_dinov3", "hf_dinov3_key_bias", "timm_eva",
                                         "timm_eva02_clip", "timm_rope_mixed", "timm_pe_core", "hf_beit_shared",
                                         "timm_beit", "timm_beit_shared"));

TEST_P(Savings, EachChangesNothingButTheRounding) {
  const Checkpoint checkpoint = Checkpoint::Open(GoldenFolder(GetParam()));
  const Tensor<float> plain = Logits<float>(checkpoint, kNone);
  const Tensor<double> exact = Logits<double>(checkpoint, kNone);
  std::vector<BuildOptions> variants(7, kNone);
  variants[0].fold_norms = true;
  variants[1].fold_scales = true;
  variants[2].fold_key_value_bias = true;
  variants[3].read_rows = true;
  variants[4].read_rows = variants[4].absorb = true;
  variants[5].merge = true;
  variants[6] = {};
  for (const BuildOptions& options : variants) {
    // Two blocks of a few products each: some hundred roundings, as in LayerTolerance.
    EXPECT_LE(RelativeDifference(Logits<double>(checkpoint, options), exact), 64 * 2.2e-16);
    EXPECT_LE(RelativeDifference(Logits<float>(checkpoint, options), plain), 64 * 1.2e-7);
  }
}

// Without the other order of attention, the rows that are read are the same to the bit, in every precision.
TEST_P(Savings, ReadingFewerRowsChangesNoBit) {
  const Checkpoint checkpoint = Checkpoint::Open(GoldenFolder(GetParam()));
  for (const auto precision : {simd::Precision::kFloat32, simd::Precision::kBfloat16, simd::Precision::kInt8}) {
    BuildOptions whole = kNone, fewer = kNone;
    whole.precision = fewer.precision = precision;
    fewer.read_rows = true;
    const Tensor<float> all = Logits<float>(checkpoint, whole), read = Logits<float>(checkpoint, fewer);
    for (int64_t i = 0; i < all.size(); ++i) EXPECT_EQ(read[i], all[i]) << simd::Describe(precision).kernel;
  }
}

// One head as wide as the model: merging beforehand saves a product.
TEST(Savings, MergeTakesEffectWhereItPays) {
  BuildOptions merge = kNone;
  merge.merge = true;
  for (const auto& [golden, pays] : {std::pair("timm_one_head_wide", true),
                                     {"vit_pytorch_one_head", true},
                                     {"vit_pytorch_one_head_narrow", false},
                                     {"timm_vit", false}}) {
    const Checkpoint checkpoint = Checkpoint::Open(GoldenFolder(golden));
    const VitConfig& c = checkpoint.description.config;
    for (int64_t block = 0; block < c.depth; ++block) {
      EXPECT_EQ(ChooseAttentionBuild(c, merge, block).kind == nn::AttentionKind::kMerged, pays)
          << golden << " block " << block;
      EXPECT_EQ(ChooseAttentionBuild(c, kNone, block).kind, nn::AttentionKind::kSeparate)
          << golden << " block " << block;
    }
    EXPECT_LE(RelativeDifference(Logits<double>(checkpoint, merge), Logits<double>(checkpoint, kNone)), 64 * 2.2e-16)
        << golden;
  }
}

// That a switch does something shows in the last bits.
TEST(Savings, SwitchesTakeEffect) {
  const Checkpoint checkpoint = Checkpoint::Open(GoldenFolder("timm_layerscale"));
  const Tensor<double> plain = Logits<double>(checkpoint, kNone);
  for (bool BuildOptions::*saving : {&BuildOptions::fold_norms, &BuildOptions::fold_scales,
                                     &BuildOptions::fold_key_value_bias, &BuildOptions::absorb}) {
    BuildOptions options = kNone;
    options.read_rows = true;
    options.*saving = true;
    EXPECT_GT(RelativeDifference(Logits<double>(checkpoint, options), plain), 0);
  }
}

}  // namespace
}  // namespace qkv::model
