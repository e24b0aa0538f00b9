#include "qkv/inspect/weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "qkv/model/families/describe.h"
#include "qkv/model/vision/vit.h"
#include "tests/support/checkpoints.h"
#include "tests/support/files.h"
#include "tests/support/goldens.h"
#include "tests/support/sampler.h"

namespace qkv::inspect {
namespace {

TEST(AttentionWeights, AreTheRowsOfTheFusedProjection) {
  const TemporaryFolder folder;
  const io::Json json = TinyConfig();
  const model::Checkpoint shapes = [&] {
    WriteFile(folder / "config.json", json.dump());
    TensorSet tensors(model::DescribeTimm(json).config);
    tensors.Write(folder / "model.safetensors");
    return model::Checkpoint::Open(folder.path());
  }();
  TensorSet tensors(shapes.description.config);
  const Tensor<float>& fused = tensors.at("blocks.1.attn.qkv.weight");  // [3·16, 16]
  const Tensor<float>& bias = tensors.at("blocks.1.attn.qkv.bias");
  const AttentionWeights weights = ReadAttention(shapes, 1);
  EXPECT_EQ(weights.heads, 4);
  EXPECT_EQ(weights.query.weight.shape(), Shape({16, 16}));
  for (int64_t i = 0; i < 16; ++i) {
    EXPECT_EQ(weights.query.bias[i], bias[i]);
    EXPECT_EQ(weights.key.bias[i], bias[16 + i]);
    EXPECT_EQ(weights.value.bias[i], bias[32 + i]);
    EXPECT_EQ(weights.gamma[i], tensors.at("blocks.1.norm1.weight")[i]);
    EXPECT_EQ(weights.beta[i], tensors.at("blocks.1.norm1.bias")[i]);
    for (int64_t d = 0; d < 16; ++d) {
      EXPECT_EQ(*weights.query.weight.view().at(i, d), *fused.view().at(i, d));
      EXPECT_EQ(*weights.key.weight.view().at(i, d), *fused.view().at(16 + i, d));
      EXPECT_EQ(*weights.value.weight.view().at(i, d), *fused.view().at(32 + i, d));
      EXPECT_EQ(*weights.output.weight.view().at(i, d), *tensors.at("blocks.1.attn.proj.weight").view().at(i, d));
    }
  }
  EXPECT_THROW(ReadAttention(shapes, 2), Error);
  EXPECT_THROW(ReadAttention(shapes, -1), Error);
}

model::Checkpoint Golden(const std::string& name) { return model::Checkpoint::Open(GoldenFolder(name)); }

// LayerNorm(x) with the gain and offset of `weights`; x: [D].
Tensor<double> Normalised(std::span<const double> x, const AttentionWeights& weights) {
  const auto D = static_cast<double>(x.size());
  double mean = 0, variance = 0;
  for (const double value : x) mean += value / D;
  for (const double value : x) variance += (value - mean) * (value - mean) / D;
  Tensor<double> out({std::ssize(x)});
  for (int64_t d = 0; d < out.size(); ++d) {
    const double value = (x[static_cast<size_t>(d)] - mean) / std::sqrt(variance + weights.eps);
    out[d] = weights.gamma[d] * value + weights.beta[d];
  }
  return out;
}

// The rows of a projection of x [D].
Tensor<double> Project(const algebra::Projection& projection, const Tensor<double>& x) {
  Tensor<double> out({projection.weight.dim(0)});
  for (int64_t row = 0; row < out.size(); ++row) {
    out[row] = projection.bias.empty() ? 0 : projection.bias[row];
    for (int64_t d = 0; d < x.size(); ++d) out[row] += *projection.weight.view().at(row, d) * x[d];
  }
  return out;
}

class PairsOfKinds : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Kinds, PairsOfKinds,
                         testing::Values("timm_vit", "timm_qkv_bias_off", "timm_kind_shared", "timm_kind_unified",
                                         "timm_kind_shared_kv", "timm_kind_merged", "timm_kind_merged_no_bias",
                                         "timm_kind_low_rank", "timm_kind_symmetric"));

// Queries, keys and scale alone give the attention that the model's own pass of its kind gives.
TEST_P(PairsOfKinds, GiveTheModelsAttention) {
  const model::Checkpoint golden = Golden(GetParam());
  const model::VitConfig& c = golden.description.config;
  const int64_t N = c.tokens(), D = c.block.width, H = c.block.attention.heads;
  const AttentionWeights weights = ReadAttention(golden, c.depth - 1);
  const model::Vit<double> vit(c, golden.bound);
  Tensor<double> hidden({1, N, D}), attention({1, H, N, N});
  model::Workspace<double> workspace;
  vit.Forward(Sampler(7).Normal<double>({1, c.channels, c.image_height, c.image_width}), workspace,
              {.hidden = {{c.depth - 1, hidden}},
               .attention = {{c.depth - 1, {.row_begin = 0, .row_end = N, .out = attention, .visit = {}}}}});

  const int64_t r = weights.query.weight.dim(0) / H;
  std::vector<Tensor<double>> queries, keys;
  for (int64_t n = 0; n < N; ++n) {
    const auto x = Normalised({hidden.view().at(0, n), static_cast<size_t>(D)}, weights);
    queries.push_back(Project(weights.query, x)), keys.push_back(Project(weights.key, x));
  }
  // Scores of a few hundred roundings; merged ones have magnitudes up to D / E times those of their factors.
  const double tolerance = 64 * 2.2e-16 * static_cast<double>(D) / static_cast<double>(c.block.attention.head_width);
  for (int64_t h = 0; h < H; ++h) {
    for (int64_t i = 0; i < N; ++i) {
      std::vector<double> row(static_cast<size_t>(N));
      double greatest = -1e300, sum = 0;
      for (int64_t j = 0; j < N; ++j) {
        double& score = row[static_cast<size_t>(j)];
        for (int64_t e = h * r; e < (h + 1) * r; ++e) {
          score += weights.scale * queries[static_cast<size_t>(i)][e] * keys[static_cast<size_t>(j)][e];
        }
        greatest = std::max(greatest, score);
      }
      for (double& score : row) sum += score = std::exp(score - greatest);
      for (int64_t j = 0; j < N; ++j) {
        EXPECT_NEAR(row[static_cast<size_t>(j)] / sum, *attention.view().at(0, h, i, j), tolerance);
      }
    }
  }
}

TEST(AttentionWeights, AreNotMadeUpForScoresOfPlacesAndOfTwoMaps) {
  for (const char* name : {"timm_kind_gaussian", "timm_kind_positional", "timm_differential"}) {
    EXPECT_THROW(ReadAttention(Golden(name), 0), Error) << name;
  }
}

}  // namespace
}  // namespace qkv::inspect
