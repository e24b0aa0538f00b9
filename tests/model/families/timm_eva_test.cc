// timm's class Eva by its names alone: sizes as timm builds them, what is refused, and what only a config.json tells.
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "qkv/model/config/description.h"
#include "qkv/model/families/describe.h"
#include "qkv/model/layout/tensor_table.h"
#include "tests/support/checkpoints.h"
#include "tests/support/errors.h"

namespace qkv::model {
namespace {

VitConfig ConfigOf(std::string_view architecture, const io::Json& args = io::Json::object()) {
  return DescribeTimm({{"architecture", architecture}, {"model_args", args}}).config;
}

struct Size {
  const char* architecture;
  int64_t parameters;
};
// sum(p.numel() for p in timm.create_model(name).parameters()) of timm 1.0.31
constexpr Size kSizes[] = {
    {"eva02_base_patch14_224", 85758720},
    {"eva02_base_patch14_448", 87117544},
    {"eva02_base_patch16_clip_224", 86263040},
    {"eva02_enormous_patch14_clip_224", 4350556928},
    {"eva02_large_patch14_224", 303268800},
    {"eva02_large_patch14_448", 305080232},
    {"eva02_large_patch14_clip_224", 304105152},
    {"eva02_large_patch14_clip_336", 304432832},
    {"eva02_small_patch14_224", 21621120},
    {"eva02_small_patch14_336", 22129000},
    {"eva02_tiny_patch14_224", 5502144},
    {"eva02_tiny_patch14_336", 5756584},
    {"eva_giant_patch14_224", 1012555112},
    {"eva_giant_patch14_336", 1013005672},
    {"eva_giant_patch14_560", 1014447464},
    {"eva_giant_patch14_clip_224", 1012588928},
    {"vit_7b_patch16_dinov3", 6716030976},
    {"vit_base_patch16_dinov3", 85641216},
    {"vit_base_patch16_dinov3_qkvb", 85659648},
    {"vit_base_patch16_lingbot", 85659648},
    {"vit_base_patch16_rope_224", 86434792},
    {"vit_base_patch16_rope_ape_224", 86585320},
    {"vit_base_patch16_rope_mixed_224", 86444008},
    {"vit_base_patch16_rope_mixed_ape_224", 86594536},
    {"vit_base_patch16_rope_reg1_gap_256", 86425576},
    {"vit_betwixt_patch16_rope_reg4_gap_256", 60226920},
    {"vit_giant_patch16_lingbot", 1134473216},
    {"vit_huge_plus_patch16_dinov3", 840509440},
    {"vit_huge_plus_patch16_dinov3_qkvb", 840591360},
    {"vit_large_patch16_dinov3", 303079424},
    {"vit_large_patch16_dinov3_qkvb", 303128576},
    {"vit_large_patch16_lingbot", 303128576},
    {"vit_large_patch16_rope_224", 304174056},
    {"vit_large_patch16_rope_ape_224", 304374760},
    {"vit_large_patch16_rope_mixed_224", 304198632},
    {"vit_large_patch16_rope_mixed_ape_224", 304399336},
    {"vit_medium_patch16_rope_reg1_gap_256", 38743016},
    {"vit_mediumd_patch16_rope_reg1_gap_256", 63945704},
    {"vit_pe_core_base_patch16_224", 93673984},
    {"vit_pe_core_gigantic_patch14_448", 1882033920},
    {"vit_pe_core_large_patch14_336", 317152256},
    {"vit_pe_core_small_patch16_384", 23783168},
    {"vit_pe_core_tiny_patch16_384", 6141056},
    {"vit_pe_lang_gigantic_patch14_448", 1740922624},
    {"vit_pe_lang_large_patch14_448", 291415040},
    {"vit_pe_spatial_base_patch16_512", 86433792},
    {"vit_pe_spatial_gigantic_patch14_448", 1851887104},
    {"vit_pe_spatial_large_patch14_448", 303964160},
    {"vit_pe_spatial_small_patch16_512", 21983232},
    {"vit_pe_spatial_tiny_patch16_512", 5683200},
    {"vit_small_patch16_dinov3", 21586944},
    {"vit_small_patch16_dinov3_qkvb", 21596160},
    {"vit_small_patch16_lingbot", 21596160},
    {"vit_small_patch16_rope_224", 21984232},
    {"vit_small_patch16_rope_ape_224", 22059496},
    {"vit_small_patch16_rope_mixed_224", 21988840},
    {"vit_small_patch16_rope_mixed_ape_224", 22064104},
    {"vit_small_plus_patch16_dinov3", 28683264},
    {"vit_small_plus_patch16_dinov3_qkvb", 28692480},
    {"vit_tiny_patch16_dinov3_qkvb", 5489664},
};

TEST(TimmEva, HasTheParametersOfTimm) {
  for (const Size& size : kSizes)
    EXPECT_EQ(Parameters(ConfigOf(size.architecture)), size.parameters) << size.architecture;
}

TEST(TimmEva, ReadsHowPositionsRotate) {
  const VitConfig dinov3 = ConfigOf("vit_small_patch16_dinov3");
  EXPECT_EQ(dinov3.rotary, PatchRotary::kNormalised);
  EXPECT_TRUE(dinov3.rotary_halves);
  EXPECT_EQ(dinov3.rotary_base, 100);
  EXPECT_EQ(dinov3.block.norm.eps, 1e-5);
  const VitConfig eva = ConfigOf("eva02_base_patch14_448");
  EXPECT_EQ(eva.rotary, PatchRotary::kPatches);
  EXPECT_FALSE(eva.rotary_halves);
  EXPECT_TRUE(eva.rotary_scales);
  EXPECT_EQ(eva.rotary_grid_height, 16);
  EXPECT_FALSE(eva.block.attention.key_bias);
  EXPECT_TRUE(eva.block.mlp.norm);
  const VitConfig core = ConfigOf("vit_pe_core_base_patch16_224");
  EXPECT_TRUE(core.rotary_columns_first);
  EXPECT_EQ(core.rotary_offset, 1);
  EXPECT_EQ(core.pool, Pool::kMap);
  EXPECT_EQ(core.pool_heads(), 8);
  EXPECT_TRUE(core.block.attention.key_bias);
  EXPECT_FALSE(ConfigOf("vit_base_patch16_rope_224").rotary_scales);
  EXPECT_EQ(ConfigOf("vit_base_patch16_rope_mixed_224").rotary, PatchRotary::kMixed);
  EXPECT_EQ(ConfigOf("eva_giant_patch14_224").rotary, PatchRotary::kNone);
  EXPECT_EQ(ConfigOf("eva02_enormous_patch14_clip_224").block.norm_place, nn::NormPlace::kOutput);
}

TEST(TimmEva, RefusesWhatItLacks) {
  const auto message = [](const io::Json& args, const char* architecture = "eva02_tiny_patch14_224") {
    return ErrorMessage([&] { ConfigOf(architecture, args); });
  };
  EXPECT_NE(message({}, "vit_base_patch16_sapiens2").find("keys and values shared by heads"), std::string::npos);
  EXPECT_NE(message({{"rope_type", "mrope"}}).find("rope_type \"mrope\""), std::string::npos);
  EXPECT_NE(message({{"gated_attn", true}}).find("gated_attn"), std::string::npos);
  EXPECT_NE(message({{"num_kv_heads", 1}}).find("num_kv_heads"), std::string::npos);
  EXPECT_NE(message({{"attn_type", "linear"}}).find("attn_type"), std::string::npos);
  EXPECT_NE(message({{"rope_temperature", 0}}).find("rope_temperature"), std::string::npos);
  EXPECT_NE(message({{"rope_grid_indexing", "yx"}}).find("rope_grid_indexing"), std::string::npos);
  EXPECT_NE(message({{"global_pool", "map"}}).find("attention pooling"), std::string::npos);
  EXPECT_NE(message({{"num_heads", 5}}).find("num_heads"), std::string::npos);
  EXPECT_NE(message({{"attn_pool_num_heads", 7}}, "vit_pe_core_base_patch16_224").find("attention pooling's 7 heads"),
            std::string::npos);
  EXPECT_NE(message({{"embed_dim", 18}, {"num_heads", 3}}).find("a multiple of 4 features"), std::string::npos);
}

}  // namespace
}  // namespace qkv::model
