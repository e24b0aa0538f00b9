// What the forward pass promises beside the right numbers: no allocation, independence of the batch, exact savings.
#include <gtest/gtest.h>

#include <algorithm>

#include "qkv/core/parallel.h"
#include "qkv/core/work.h"
#include "qkv/model/config/description.h"
#include "qkv/model/families/describe.h"
#include "qkv/model/model.h"
#include "tests/support/allocations.h"
#include "tests/support/checkpoints.h"
#include "tests/support/files.h"
#include "tests/support/goldens.h"
#include "tests/support/threads.h"

namespace qkv::model {
namespace {

Model Load(const std::string& golden, const BuildOptions& options = {}) {
  return Model::Load(GoldenFolder(golden), options);
}

Tensor<float> RandomPixels(const Model& model, int64_t images) {
  const VitConfig& c = model.config();
  return Sampler(7).Normal<float>({images, c.channels, c.image_height, c.image_width});
}

class ForwardOf : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Models, ForwardOf,
                         testing::Values("timm_vit", "timm_map", "timm_swiglu_packed", "timm_distilled", "hf_vit",
                                         "hf_dinov2_registers", "hf_vit_model_pooler", "vit_pytorch_vit",
                                         "timm_kind_shared", "timm_kind_unified", "timm_kind_shared_kv",
                                         "timm_kind_merged", "timm_kind_low_rank", "timm_kind_symmetric",
                                         "timm_kind_gaussian", "timm_kind_positional", "timm_differential_resized",
                                         "hf_dinov3", "timm_eva02_clip", "timm_rope_mixed", "timm_pe_core",
                                         "hf_beit_shared", "timm_beit"));

TEST_P(ForwardOf, SecondPassAllocatesNothing) {
  for (const auto precision : {simd::Precision::kFloat32, simd::Precision::kBfloat16, simd::Precision::kInt8}) {
    const Model model = Load(GetParam(), {.precision = precision});
    const Tensor<float> pixels = RandomPixels(model, 3);
    Tensor<float> logits({3, model.config().outputs()});
    const Outputs<float> outputs{.logits = logits};
    Workspace<float> workspace;
    model.Forward(pixels, workspace, outputs);
    model.Forward(pixels, workspace, outputs);  // the arena joins its blocks
    const int64_t before = g_allocations.load();
    model.Forward(pixels, workspace, outputs);
    EXPECT_EQ(g_allocations.load() - before, 0) << simd::Describe(precision).kernel;
  }
}

TEST_P(ForwardOf, ImageDoesNotDependOnItsBatch) {
  for (const auto precision : {simd::Precision::kFloat32, simd::Precision::kBfloat16, simd::Precision::kInt8}) {
    const Model model = Load(GetParam(), {.precision = precision});
    const Tensor<float> pixels = RandomPixels(model, 5);
    const Tensor<float> together = model.Logits(pixels);
    for (int64_t i = 0; i < 5; ++i) {
      const Tensor<float> alone = model.Logits(pixels.view().slice(0, i, i + 1));
      for (int64_t j = 0; j < alone.size(); ++j) EXPECT_EQ(alone[j], together.view().row(i)[j]);
    }
  }
}

// At any block; the workspace is as good as new afterwards.
TEST_P(ForwardOf, IsGivenUpBetweenBlocks) {
  const Model model = Load(GetParam());
  const Tensor<float> pixels = RandomPixels(model, 3), expected = model.Logits(pixels);
  Tensor<float> logits({3, model.config().outputs()});
  Workspace<float> workspace;
  for (int64_t last = 0; last < model.config().depth; ++last) {
    {
      int64_t asked = 0;
      const CancelScope scope([&] { return asked++ == last; });
      EXPECT_THROW(model.Forward(pixels, workspace, {.logits = logits}), Cancelled) << last;
    }
    model.Forward(pixels, workspace, {.logits = logits});
    EXPECT_TRUE(std::ranges::equal(logits.span(), expected.span())) << last;
  }
}

// So wide an MLP that images go through a block one at a time.
TEST(Forward, ManyImagesOfAWideModelAreAsOneByOne) {
  const TemporaryFolder folder;
  io::Json json = TinyConfig();
  json["model_args"]["img_size"] = 32;
  json["model_args"]["mlp_ratio"] = 1024;  // [B, 65, 16 · 1024] in float is 4.06 MiB an image
  json["pretrained_cfg"]["input_size"] = {1, 32, 32};
  WriteFile(folder / "config.json", json.dump());
  TensorSet(DescribeTimm(json).config).Write(folder / "model.safetensors");
  const Model model = Model::Load(folder.path());
  const int64_t B = 3, N = 65;
  const Tensor<float> pixels = RandomPixels(model, B);
  const auto run = [&](View<const float> images) {
    Tensor<float> tokens({images.dim(0), N, 16});
    Workspace<float> workspace;
    model.Forward(images, workspace, {.tokens = tokens});
    return tokens;
  };
  const Tensor<float> together = run(pixels);
  for (int64_t b = 0; b < B; ++b) {
    const Tensor<float> alone = run(pixels.view().slice(0, b, b + 1));
    for (int64_t i = 0; i < alone.size(); ++i) ASSERT_EQ(alone[i], together.view().at(b)[i]);
  }
}

TEST_P(ForwardOf, ResultDoesNotDependOnTheThreads) {
  const Model model = Load(GetParam());
  const Tensor<float> pixels = RandomPixels(model, 2);
  const RestoreThreads restore;
  SetNumThreads(1);
  const Tensor<float> one = model.Logits(pixels);
  SetNumThreads(5);
  const Tensor<float> five = model.Logits(pixels);
  for (int64_t i = 0; i < one.size(); ++i) EXPECT_EQ(one[i], five[i]);
}

TEST(Forward, RefusesWhatDoesNotFit) {
  const Model model = Load("timm_vit");
  EXPECT_THROW(model.Logits(Tensor<float>({1, 1, 24, 24})), Error);  // one channel
  EXPECT_THROW(model.Logits(Tensor<float>({1, 3, 24, 25})), Error);  // no multiple of the patch
  EXPECT_THROW(model.Logits(Tensor<float>({1, 3, 4, 24})), Error);   // smaller than a patch
  EXPECT_EQ(model.Logits(Tensor<float>({0, 3, 24, 24})).size(), 0);
  Workspace<float> workspace;
  Tensor<float> out({1, model.config().tokens(), model.config().block.width});
  EXPECT_THROW(model.Forward(Tensor<float>({1, 3, 24, 24}), workspace,
                             {.logits = {}, .tokens = {}, .hidden = {{3, out}}, .attention = {}}),
               Error);
  EXPECT_THROW(Load("vit_pytorch_vit").SetInputSize(1024, 1024), Error);  // its library does not interpolate
}

// A workspace may serve several models: the positions that it keeps belong to one of them.
TEST(Forward, WorkspaceServesSeveralModels) {
  const Model first = Load("timm_vit"), second = Load("timm_deit3");
  const auto pixels = Sampler(3).Normal<float>({1, 3, 40, 32});
  const auto run = [&](const Model& model, Workspace<float>& workspace) {
    Tensor<float> logits({1, model.config().outputs()});
    model.Forward(pixels, workspace, {.logits = logits});
    return logits;
  };
  Workspace<float> shared, own;
  run(first, shared);
  const Tensor<float> got = run(second, shared), expected = run(second, own);
  for (int64_t i = 0; i < expected.size(); ++i) EXPECT_EQ(got[i], expected[i]);
}

TEST(Forward, PooledIsWhatTheClassifierSees) {
  const Model model = Load("timm_avg_fcnorm");
  const VitConfig& c = model.config();
  const Tensor<float> pixels = RandomPixels(model, 2);
  Tensor<float> pooled({2, c.pooled_width()}), both({2, c.pooled_width()}), logits({2, c.outputs()});
  Workspace<float> workspace;
  model.Forward(pixels, workspace, {.pooled = pooled});
  model.Forward(pixels, workspace, {.logits = logits, .pooled = both});
  const Tensor<float> alone = model.Logits(pixels);
  for (int64_t i = 0; i < pooled.size(); ++i) EXPECT_EQ(pooled[i], both[i]);
  for (int64_t i = 0; i < logits.size(); ++i) EXPECT_EQ(logits[i], alone[i]);
}

TEST(Forward, AttentionOfOneRowIsThatRowOfAll) {
  const Model model = Load("timm_reg4_cls");
  const VitConfig& c = model.config();
  const Tensor<float> pixels = RandomPixels(model, 2);
  const int64_t N = c.tokens();
  Tensor<float> all({2, c.block.attention.heads, N, N}), row({2, c.block.attention.heads, 1, N}),
      logits({2, c.outputs()});
  Workspace<float> workspace;
  model.Forward(pixels, workspace,
                {.logits = logits, .tokens = {}, .hidden = {}, .attention = {{1, {0, N, all}}, {1, {3, 4, row}}}});
  for (int64_t b = 0; b < 2; ++b) {
    for (int64_t h = 0; h < c.block.attention.heads; ++h) {
      for (int64_t k = 0; k < N; ++k) EXPECT_EQ(*row.view().at(b, h, 0, k), *all.view().at(b, h, 3, k));
    }
  }
}

// Attention alone, without logits, ends the pass at the last block that was asked for; the numbers are the same.
TEST(Forward, AttentionIsTheSameHoweverItIsAskedFor) {
  const std::pair<const char*, int64_t> cases[] = {
      {"timm_reg4_cls", 24},        {"timm_qk_norm", 24}, {"timm_distilled", 24}, {"hf_vit", 24},
      {"vit_pytorch_one_head", 24}, {"timm_vit", 256}};  // so many tokens are visited in several pieces
  for (const auto& [name, side] : cases) {
    const Model model = Load(name);
    const VitConfig& c = model.config();
    const auto pixels = Sampler(7).Normal<float>({2, c.channels, side, side});
    const int64_t N = model.TokensFor(side, side), last = c.depth - 1, head = c.block.attention.heads - 1;
    Tensor<float> all({2, c.block.attention.heads, N, N}), alone({2, c.block.attention.heads, N, N}),
        again({2, c.block.attention.heads, N, N}), visited({2, 1, N - 1, N}), logits({2, c.outputs()}),
        tokens({2, N, c.block.width});
    Workspace<float> workspace;
    model.Forward(pixels, workspace, {.logits = logits, .attention = {{last, {0, N, all}}}});
    int64_t next = 1;
    const auto visit = [&](int64_t row, View<const float> weights) {
      EXPECT_EQ(row, next);
      next += weights.dim(2);
      for (int64_t b = 0; b < 2; ++b) {
        std::copy_n(weights.at(b), weights.dim(2) * N, visited.view().at(b, 0, row - 1));
      }
    };
    model.Forward(pixels, workspace,
                  {.hidden = {{last, tokens}},
                   .attention = {{last, {0, N, alone}},
                                 {last, {.row_begin = 1, .row_end = N, .visit = visit, .head_begin = head}}}});
    EXPECT_EQ(next, N);
    const std::vector<nn::WeightsRequest<float>> request = {{0, N, again}};
    model.vit().BlockWeights(tokens, last, workspace, request);
    for (int64_t i = 0; i < all.size(); ++i) {
      ASSERT_EQ(alone[i], all[i]) << name;
      ASSERT_EQ(again[i], all[i]) << name;
    }
    for (int64_t b = 0; b < 2; ++b) {
      for (int64_t i = 0; i < (N - 1) * N; ++i) ASSERT_EQ(visited.view().at(b)[i], all.view().at(b, head, 1)[i]);
    }
  }
}

// One row beside the logits costs the last block no other row, and changes neither.
TEST(Forward, LogitsAreTheSameBesideTheAttentionOfOneRow) {
  const Model model = Load("timm_vit");
  const VitConfig& c = model.config();
  const Tensor<float> pixels = RandomPixels(model, 1);
  const int64_t N = c.tokens();
  for (const int64_t row : {int64_t{0}, N - 1}) {
    Tensor<float> logits({1, c.outputs()}), weights({1, c.block.attention.heads, 1, N}),
        alone({1, c.block.attention.heads, 1, N});
    Workspace<float> workspace;
    model.Forward(pixels, workspace, {.logits = logits, .attention = {{c.depth - 1, {row, row + 1, weights}}}});
    model.Forward(pixels, workspace, {.attention = {{c.depth - 1, {row, row + 1, alone}}}});
    const Tensor<float> expected = model.Logits(pixels);
    // The order of absorbed heads may have made these: the rounding is another.
    for (int64_t i = 0; i < logits.size(); ++i) EXPECT_NEAR(logits[i], expected[i], 64 * 1.2e-7);
    for (int64_t i = 0; i < weights.size(); ++i) EXPECT_EQ(weights[i], alone[i]);
  }
}

TEST(Forward, RefusesAttentionThatIsNotThere) {
  const Model model = Load("timm_vit");
  const VitConfig& c = model.config();
  const Tensor<float> pixels = RandomPixels(model, 1);
  const int64_t N = c.tokens();
  Tensor<float> out({1, c.block.attention.heads, 1, N});
  Workspace<float> workspace;
  const auto ask = [&](int64_t block, const nn::WeightsRequest<float>& request) {
    model.Forward(pixels, workspace, {.attention = {{block, request}}});
  };
  EXPECT_NO_THROW(ask(1, {N - 1, N, out}));
  EXPECT_THROW(ask(2, {0, 1, out}), Error);
  EXPECT_THROW(ask(1, {N, N + 1, out}), Error);
  EXPECT_THROW(ask(1, {.row_begin = 0, .row_end = 1, .out = out, .head_begin = c.block.attention.heads}), Error);
  EXPECT_THROW(
      ask(1, {.row_begin = 0, .row_end = 1, .out = out, .head_begin = 1, .head_end = c.block.attention.heads + 1}),
      Error);
  const Tensor<float> narrow({1, N, c.block.width - 1});
  EXPECT_THROW(model.vit().BlockWeights(narrow, 0, workspace, {}), Error);
}

}  // namespace
}  // namespace qkv::model
