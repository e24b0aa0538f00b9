// What training begins with: timm's distributions tensor by tensor, scores alike for every kind, mimetic products.
#include "qkv/train/network/initialise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "qkv/core/parallel.h"
#include "qkv/core/rng.h"
#include "tests/support/errors.h"
#include "tests/support/threads.h"

namespace qkv::train {
namespace {

using nn::AttentionKind;

model::VitConfig Tiny() {  // timm's vit_tiny_patch16_224 of one block, with every kind of token
  model::VitConfig c;
  c.block.width = 192, c.depth = 1, c.block.attention.heads = 3, c.block.attention.head_width = 64,
  c.block.mlp.width = 768, c.classes = 10;
  c.distillation_token = true, c.distillation_head = true, c.registers = 4, c.position_prefix = 6;
  c.block.attention.qk_norm = c.block.layer_scale = true;
  return c;
}

template <typename T>
Tensor<T> InitialWeights(const model::VitConfig& config, const Initialisation& how = {}) {
  const ParameterLayout layout(config);
  Tensor<T> weights({layout.size()});
  Initialise<T>(config, layout, how, weights);
  return weights;
}

struct Moments {
  double mean = 0, deviation = 0, greatest = 0, fourth = 0;  // `fourth` of a standardised value: 3 normal, 1.8 uniform
};
Moments ComputeMoments(const double* x, int64_t n) {
  Moments m;
  for (int64_t i = 0; i < n; ++i) m.mean += x[i] / static_cast<double>(n);
  for (int64_t i = 0; i < n; ++i) {
    const double centred = x[i] - m.mean;
    m.deviation += centred * centred / static_cast<double>(n);
    m.fourth += std::pow(centred, 4) / static_cast<double>(n);
    m.greatest = std::max(m.greatest, std::abs(x[i]));
  }
  m.fourth /= m.deviation * m.deviation;
  m.deviation = std::sqrt(m.deviation);
  return m;
}

void ExpectConstant(const double* x, int64_t n, double value, const std::string& name) {
  for (int64_t i = 0; i < n; ++i) ASSERT_EQ(x[i], value) << name;
}

// Within five standard errors of what n independent draws give.
void ExpectNormal(const double* x, int64_t n, double deviation, const std::string& name) {
  const Moments m = ComputeMoments(x, n);
  const double error = 5 / std::sqrt(static_cast<double>(n));
  EXPECT_NEAR(m.mean, 0, error * deviation) << name;
  EXPECT_NEAR(m.deviation, deviation, error * deviation / std::sqrt(2)) << name;
  EXPECT_NEAR(m.fourth, 3, error * std::sqrt(24.0)) << name;
}
void ExpectUniform(const double* x, int64_t n, double bound, const std::string& name) {
  const Moments m = ComputeMoments(x, n);
  const double error = 5 / std::sqrt(static_cast<double>(n));
  EXPECT_NEAR(m.mean, 0, error * bound / std::sqrt(3)) << name;
  EXPECT_NEAR(m.deviation, bound / std::sqrt(3), error * bound) << name;
  EXPECT_LE(m.greatest, bound) << name;
  EXPECT_GT(m.greatest, bound * (1 - 20.0 / static_cast<double>(n))) << name;
}

// As measured of timm 1.0.31: standard deviation and greatest element of each tensor of vit_tiny_patch16_224 and
// deit_tiny_distilled_patch16_224 (uniform ones end at 1/√768 = 0.03608).
TEST(Initialise, IsTimms) {
  const model::VitConfig c = Tiny();
  const ParameterLayout layout(c);
  const Tensor<double> weights = InitialWeights<double>(c, {.layer_scale = 1e-4});
  for (const Slot& slot : layout.slots()) {
    const double* x = weights.data() + slot.offset;
    const int64_t n = slot.shape.size();
    const std::string& name = slot.name;
    if (name == "cls_token" || name == "reg_token") {
      ExpectNormal(x, n, 1e-6, name);
    } else if (name.starts_with("patch_embed.proj")) {
      ExpectUniform(x, n, 1 / std::sqrt(768.0), name);
    } else if (name.ends_with(".gamma")) {
      ExpectConstant(x, n, 1e-4, name);
    } else if (name.find("norm") != std::string::npos && name.ends_with(".weight")) {
      ExpectConstant(x, n, 1, name);
    } else if (name.ends_with(".bias")) {
      ExpectConstant(x, n, 0, name);
    } else {
      ExpectNormal(x, n, 0.02, name);
    }
  }
}

TEST(Initialise, PoolingAndGatesAreTimms) {
  model::VitConfig c = Tiny();
  c.pool = model::Pool::kMap, c.map_mlp_width = 768, c.block.mlp.gate = simd::Gate::kFirst;
  const ParameterLayout layout(c);
  const Tensor<double> weights = InitialWeights<double>(c);
  const auto of = [&](const char* name) { return layout.At(name, weights.view()); };
  // Truncated at two standard deviations; such a normal one varies by 0.8796 of its σ.
  const Moments latent = ComputeMoments(of("attn_pool.latent").data(), 192);
  EXPECT_NEAR(latent.deviation, 0.8796 / std::sqrt(192.0), 5 * 0.8796 / std::sqrt(192.0) / std::sqrt(2 * 192.0));
  EXPECT_LE(latent.greatest, 2 / std::sqrt(192.0));
  ExpectNormal(of("attn_pool.mlp.fc1.weight").data(), 768 * 192, 0.02, "attn_pool.mlp.fc1");
  const int64_t half = 768 * 192;
  ExpectNormal(of("blocks.0.mlp.fc1.weight").data(), half, 0.02, "first half");
  ExpectNormal(of("blocks.0.mlp.fc1.weight").data() + half, half, 1e-6, "second half");
  ExpectConstant(of("blocks.0.mlp.fc1.bias").data(), 768, 0, "first half");
  ExpectConstant(of("blocks.0.mlp.fc1.bias").data() + 768, 768, 1, "second half");
}

TEST(Initialise, ComesFromSeedAndNameAlone) {
  const Tensor<float> first = InitialWeights<float>(Tiny(), {.seed = 7}),
                      other = InitialWeights<float>(Tiny(), {.seed = 8});
  const Tensor<double> exact = InitialWeights<double>(Tiny(), {.seed = 7});
  int64_t equal = 0;
  for (int64_t i = 0; i < first.size(); ++i) {
    ASSERT_EQ(first[i], static_cast<float>(exact[i]));
    equal += first[i] == other[i] && first[i] != 0;
  }
  EXPECT_LT(equal, first.size() / 100) << "another seed gives other numbers, but in norms and scales";

  const RestoreThreads restore;
  SetNumThreads(1);
  const Tensor<float> serial = InitialWeights<float>(Tiny(), {.seed = 7});
  EXPECT_EQ(std::memcmp(first.data(), serial.data(), sizeof(float) * static_cast<size_t>(first.size())), 0);

  // Of other attention, the rest begins alike.
  model::VitConfig shared = Tiny();
  shared.block.attention.kind = AttentionKind::kShared;
  const ParameterLayout layout(Tiny()), shared_layout(shared);
  const Tensor<float> of_shared = InitialWeights<float>(shared, {.seed = 7});
  for (const char* name : {"patch_embed.proj.weight", "blocks.0.attn.proj.weight", "blocks.0.mlp.fc2.weight"}) {
    const auto a = layout.At(name, first.view()), b = shared_layout.At(name, of_shared.view());
    EXPECT_EQ(std::memcmp(a.data(), b.data(), sizeof(float) * static_cast<size_t>(a.size())), 0) << name;
  }
}

// The first numbers, written down: they must be these on every machine.
TEST(Initialise, IsTheSameEverywhere) {
  const Tensor<float> weights = InitialWeights<float>(Tiny(), {.seed = 1});
  const View<const float> w = ParameterLayout(Tiny()).At("blocks.0.attn.qkv.weight", weights.view());
  const float expected[] = {-0x1.987532p-6f, -0x1.8267eap-5f, 0x1.422aaep-7f};
  for (size_t i = 0; i < std::size(expected); ++i)
    EXPECT_EQ(w.data()[i], expected[i]) << fmt::format("{:a}", w.data()[i]);
}

// --- Scores of other kinds -----------------------------------------------------------------------------------------

model::VitConfig OfKind(AttentionKind kind, int64_t rank = 0) {
  model::VitConfig c;
  c.image_height = c.image_width = 32, c.patch_height = c.patch_width = 4;
  c.block.width = 96, c.depth = 1, c.block.attention.heads = 3, c.block.attention.head_width = 32,
  c.block.mlp.width = 192, c.classes = 10;
  c.block.attention.kind = kind, c.block.attention.qk_width = rank;
  return c;
}

// M of each head with the scale, so that a score is x_i M x_jᵀ: [H, D, D].
std::vector<Tensor<double>> ScoreMatrices(const model::VitConfig& c, View<const double> weights) {
  const ParameterLayout layout(c);
  const int64_t D = c.block.width, H = c.block.attention.heads, r = c.block.attention.query_width();
  const auto of = [&](const char* name) { return layout.At(std::string("blocks.0.attn.") + name, weights); };
  std::vector<Tensor<double>> matrices;
  for (int64_t h = 0; h < H; ++h) {
    View<const double> query, key, middle;
    if (c.block.attention.kind == AttentionKind::kSeparate) {
      query = of("qkv.weight").slice(0, h * r, (h + 1) * r),
      key = of("qkv.weight").slice(0, (H + h) * r, (H + h + 1) * r);
    } else if (c.block.attention.kind == AttentionKind::kLowRank) {
      query = of("qk.query.weight").slice(0, h * r, (h + 1) * r),
      key = of("qk.key.weight").slice(0, h * r, (h + 1) * r);
    } else if (c.block.attention.kind == AttentionKind::kShared ||
               c.block.attention.kind == AttentionKind::kSymmetric) {
      query = key = of("qk.weight").slice(0, h * r, (h + 1) * r);
    }
    if (c.block.attention.kind == AttentionKind::kSymmetric) middle = of("qk.eigenvalues")[h];
    Tensor<double> m({D, D});
    const double s = 1 / std::sqrt(static_cast<double>(c.block.attention.head_width));
    for (int64_t i = 0; i < D; ++i) {
      for (int64_t j = 0; j < D; ++j) {
        if (c.block.attention.kind == AttentionKind::kMerged) {
          m[i * D + j] = s * *of("qk.merged").at(h, i, j);
          continue;
        }
        for (int64_t e = 0; e < r; ++e) {
          m[i * D + j] += s * *query.at(e, i) * *key.at(e, j) * (middle.empty() ? 1 : *middle.at(e));
        }
      }
    }
    matrices.push_back(std::move(m));
  }
  return matrices;
}

double Frobenius(const Tensor<double>& m) {
  double sum = 0;
  for (const double x : m.span()) sum += x * x;
  return std::sqrt(sum);
}

// A score of two rows of unit variance varies as ‖M‖_F: that must be the kind's as it is that of separate queries and
// keys, σ² D for σ = 0.02.
TEST(Initialise, ScoresVaryAlikeWhateverTheKind) {
  const std::pair<AttentionKind, int64_t> kinds[] = {{AttentionKind::kSeparate, 0},  {AttentionKind::kShared, 0},
                                                     {AttentionKind::kMerged, 0},    {AttentionKind::kLowRank, 8},
                                                     {AttentionKind::kSymmetric, 0}, {AttentionKind::kSymmetric, 8}};
  for (const auto& [kind, rank] : kinds) {
    const model::VitConfig c = OfKind(kind, rank);
    double trace = 0, norm = 0;
    for (const Tensor<double>& m : ScoreMatrices(c, InitialWeights<double>(c).view())) {
      norm += Frobenius(m) / 3;
      for (int64_t d = 0; d < 96; ++d) trace += m[d * 97] / 3;
    }
    // One weight for both adds the squares of its own Gram matrix: E ‖Wᵀ W‖² = σ⁴ E D (D + E + 1).
    const double same = kind == AttentionKind::kShared ? std::sqrt(1 + 33.0 / 96) : 1;
    // Of 96² and more entries; those of rank 8 hang together: a tenth is six standard errors there.
    EXPECT_NEAR(norm, same * 0.02 * 0.02 * 96, 0.1 * 0.02 * 0.02 * 96) << model::Name(kind) << " " << rank;
    // With itself a token scores the trace on average: nothing, but where queries are keys without signs.
    if (kind != AttentionKind::kShared) {
      EXPECT_NEAR(trace, 0, 0.02 * 0.02 * 96) << model::Name(kind) << " " << rank;
    }
  }
}

TEST(Initialise, PlacesScoreAsTokensDo) {
  const model::VitConfig c = OfKind(AttentionKind::kPositional, 16);
  const ParameterLayout layout(c);
  const Tensor<double> weights = InitialWeights<double>(c);
  const auto query = layout.At("blocks.0.attn.qk.query", weights.view());
  const auto key = layout.At("blocks.0.attn.qk.key", weights.view());
  std::vector<double> scores;
  for (int64_t i = 0; i < c.tokens(); ++i) {
    for (int64_t j = 0; j < c.tokens(); ++j) {
      double score = 0;
      for (int64_t e = 0; e < 16; ++e) score += *query.at(0, i, e) * *key.at(0, j, e) / std::sqrt(32.0);
      scores.push_back(score);
    }
  }
  // Of 65² scores of 2 · 65 · 16 numbers: six standard errors, each 1/√(65 · 16).
  EXPECT_NEAR(ComputeMoments(scores.data(), static_cast<int64_t>(scores.size())).deviation, 0.02 * 0.02 * 96,
              6 / std::sqrt(65.0 * 16) * 0.02 * 0.02 * 96);
}

TEST(Initialise, BandwidthsSpanTheGrid) {
  const model::VitConfig c = OfKind(AttentionKind::kGaussian);
  const Tensor<double> weights = InitialWeights<double>(c);
  const auto h = ParameterLayout(c).At("blocks.0.attn.qk.bandwidth", weights.view());
  EXPECT_EQ(h.data()[0], 1);
  EXPECT_NEAR(h.data()[1], std::sqrt(8.0), 1e-14);
  EXPECT_NEAR(h.data()[2], 8, 1e-14);
}

// --- Mimetic --------------------------------------------------------------------------------------------------------

constexpr auto kMimetic = Initialisation::Scheme::kMimetic;

// Projected on I: tr(M) / D, and what is left, as ‖M − that I‖_F / √D.
struct AboutIdentity {
  double diagonal, rest;
};
AboutIdentity About(const Tensor<double>& m, double factor = 1) {
  const int64_t D = m.dim(0);
  double trace = 0, rest = 0;
  for (int64_t d = 0; d < D; ++d) trace += factor * m[d * D + d] / static_cast<double>(D);
  for (int64_t i = 0; i < m.size(); ++i) {
    const double x = factor * m[i] - (i % (D + 1) == 0 ? trace : 0);
    rest += x * x / static_cast<double>(D);
  }
  return {trace, std::sqrt(rest)};
}

TEST(Initialise, MimeticValuesAndOutputsAreNearMinusIdentity) {
  for (const AttentionKind kind : {AttentionKind::kSeparate, AttentionKind::kMerged}) {
    const model::VitConfig c = OfKind(kind);
    const ParameterLayout layout(c);
    const Tensor<double> weights = InitialWeights<double>(c, {.scheme = kMimetic});
    const auto output = layout.At("blocks.0.attn.proj.weight", weights.view());
    const View<const double> value = kind == AttentionKind::kSeparate
                                         ? layout.At("blocks.0.attn.qkv.weight", weights.view()).slice(0, 192, 288)
                                         : layout.At("blocks.0.attn.v.weight", weights.view());
    Tensor<double> product({96, 96});
    for (int64_t i = 0; i < 96; ++i) {
      for (int64_t e = 0; e < 96; ++e) {
        for (int64_t j = 0; j < 96; ++j) product[i * 96 + j] += *output.at(i, e) * *value.at(e, j);
      }
    }
    // 0.4 Z − 0.4 I: the trace of Z / D varies by 1/D, ‖Z‖_F / √D is 1 up to 1/(D√2).
    const AboutIdentity about = About(product);
    EXPECT_NEAR(about.diagonal, -0.4, 5 * 0.4 / 96);
    EXPECT_NEAR(about.rest, 0.4, 5 * 0.4 / 96);
  }
}

TEST(Initialise, MimeticQueriesAndKeysAreNearIdentity) {
  const double scale = std::sqrt(32.0);  // ScoreMatrices has s in it
  for (const auto& [kind, rank] : {std::pair(AttentionKind::kMerged, 0),
                                   {AttentionKind::kSeparate, 0},
                                   {AttentionKind::kLowRank, 16},
                                   {AttentionKind::kShared, 0},
                                   {AttentionKind::kSymmetric, 32}}) {
    const model::VitConfig c = OfKind(kind, rank);
    const Tensor<double> weights = InitialWeights<double>(c, {.scheme = kMimetic});
    for (const Tensor<double>& m : ScoreMatrices(c, weights.view())) {
      const AboutIdentity about = About(m, scale);
      if (kind == AttentionKind::kMerged) {
        EXPECT_NEAR(about.diagonal, 0.7, 5 * 0.7 / 96);
        EXPECT_NEAR(about.rest, 0.7, 5 * 0.7 / 96);
      } else {
        // A third (a sixth) of the directions, those that are stretched most: more of the trace than that share of 0.7.
        EXPECT_GT(about.diagonal, 0.7 * static_cast<double>(c.block.attention.query_width()) / 96) << model::Name(kind);
      }
    }
  }
}

TEST(Initialise, MimeticPositionsAreSinesAndCosines) {
  const model::VitConfig c = OfKind(AttentionKind::kSeparate);
  const ParameterLayout layout(c);
  const Tensor<double> weights = InitialWeights<double>(c, {.scheme = kMimetic});
  const auto positions = layout.At("pos_embed", weights.view());
  for (int64_t d = 0; d < 96; ++d) EXPECT_EQ(*positions.at(0, 0, d), 0) << "the class token has none";
  for (int64_t patch = 0; patch < 64; ++patch) {  // the lowest frequency counts patches
    EXPECT_NEAR(*positions.at(0, 1 + patch, 0), std::sin(static_cast<double>(patch % 8)), 1e-15);
    EXPECT_NEAR(*positions.at(0, 1 + patch, 72), std::cos(std::floor(static_cast<double>(patch) / 8)), 1e-15);
  }
}

TEST(Initialise, MimeticIsRefusedWhereItIsNotDefined) {
  const auto refusal = [](model::VitConfig c) {
    return ErrorMessage([&] { InitialWeights<float>(c, {.scheme = kMimetic}); });
  };
  for (const AttentionKind kind : {AttentionKind::kUnified, AttentionKind::kSharedKeyValue, AttentionKind::kGaussian,
                                   AttentionKind::kPositional}) {
    EXPECT_NE(refusal(OfKind(kind)).find(fmt::format("not defined for {} attention", model::Name(kind))),
              std::string::npos);
  }
  model::VitConfig c = OfKind(AttentionKind::kSeparate);
  c.block.attention.projection = false;
  EXPECT_NE(refusal(c).find("output projection"), std::string::npos);
  c = OfKind(AttentionKind::kSeparate);
  c.block.attention.heads = 4;
  EXPECT_NE(refusal(c).find("no wider than the model"), std::string::npos);
  c = OfKind(AttentionKind::kSeparate);
  c.block.width = 98;
  EXPECT_NE(refusal(c).find("divisible by 4"), std::string::npos);
}

}  // namespace
}  // namespace qkv::train
