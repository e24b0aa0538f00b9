#include "qkv/inspect/heads_tokens.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cmath>
#include <numeric>

#include "qkv/algebra/fold.h"
#include "qkv/algebra/logits.h"
#include "qkv/model/families/describe.h"
#include "tests/support/checkpoints.h"
#include "tests/support/files.h"
#include "tests/support/tolerance.h"

namespace qkv::inspect {
namespace {

AttentionWeights RandomWeights(int64_t H, int64_t E, int64_t D, bool bias, uint64_t seed) {
  Sampler sampler(seed);
  AttentionWeights weights;
  weights.heads = H;
  weights.gamma = sampler.Normal<double>({D}, 1, 0.3), weights.beta = Tensor<double>({D});
  for (algebra::Projection* p : {&weights.query, &weights.key}) {
    p->weight = sampler.Normal<double>({H * E, D}, 0, 1 / std::sqrt(static_cast<double>(D)));
    if (bias) p->bias = sampler.Normal<double>({H * E}, 0, 0.5);
  }
  if (bias) weights.beta = sampler.Normal<double>({D}, 0, 0.3);
  return weights;
}

std::vector<Tensor<double>> RandomTokens(int64_t B, int64_t N, int64_t D, double position, double content,
                                         uint64_t seed) {
  Sampler sampler(seed);
  const auto positions = sampler.Normal<double>({N, D}, 0, position);
  std::vector<Tensor<double>> tokens;
  for (int64_t b = 0; b < B; ++b) {
    auto noise = sampler.Normal<double>({N, D}, 0, content);
    for (int64_t i = 0; i < noise.size(); ++i) noise[i] += positions[i];
    tokens.push_back(algebra::Normalise(noise, 1e-6));
  }
  return tokens;
}

Tensor<double> ComputeMean(const std::vector<Tensor<double>>& tokens) {
  Tensor<double> mean(tokens[0].shape());
  for (const Tensor<double>& image : tokens) {
    for (int64_t i = 0; i < mean.size(); ++i) mean[i] += image[i] / static_cast<double>(tokens.size());
  }
  return mean;
}

std::vector<LogitShares> ComputeShares(const AttentionWeights& weights, const std::vector<Tensor<double>>& tokens,
                                       bool causal = false) {
  LogitSplit split(weights, ComputeMean(tokens), causal);
  LogitScratch scratch;
  for (const Tensor<double>& image : tokens) split.Add(image, scratch);
  return split.Shares();
}

// Shares are quotients of sums of squares of float logits: each is off by at most a few roundings of a product over D
// and one over E features, relative to the norms of what is multiplied. Those are a few times the logits' own.
double ShareTolerance(int64_t D, int64_t E) { return 30 * (DotTolerance<float>(D, 1) + DotTolerance<float>(E, 1)); }

// The header's formulas, word for word, in double.
LogitShares Naive(const AttentionWeights& weights, const std::vector<Tensor<double>>& tokens, int64_t h,
                  bool causal = false) {
  const int64_t N = tokens[0].dim(0), D = tokens[0].dim(1), E = weights.query.weight.dim(0) / weights.heads;
  const Tensor<double> mean = ComputeMean(tokens);
  const auto folded = [&](const algebra::Projection& layer) {
    return algebra::FoldLayerNorm(algebra::Head(layer, h, weights.heads), weights.gamma, weights.beta);
  };
  const algebra::Projection q = folded(weights.query), k = folded(weights.key);
  const auto project = [&](const algebra::Projection& p, const double* x, bool bias, int64_t e) {
    double sum = bias && !p.bias.empty() ? p.bias[e] : 0;
    for (int64_t d = 0; d < D; ++d) sum += p.weight[e * D + d] * x[d];
    return sum;
  };
  LogitShares shares;
  std::array<double, kLogitParts> with_whole{}, square{};
  double whole_square = 0, same_square = 0;
  for (const Tensor<double>& image : tokens) {
    Tensor<double> content(image.shape());
    for (int64_t i = 0; i < image.size(); ++i) content[i] = image[i] - mean[i];
    Tensor<double> parts({kLogitParts, N, N});
    for (int64_t e = 0; e < E; ++e) {
      std::vector<double> query[2], key[2];
      for (int side = 0; side < 2; ++side) {
        const Tensor<double>& x = side == 0 ? mean : content;
        for (int64_t i = 0; i < N; ++i) {
          query[side].push_back(project(q, x.data() + i * D, side == 0, e));
          key[side].push_back(project(k, x.data() + i * D, false, e));
        }
      }
      for (int part = 0; part < kLogitParts; ++part) {
        const std::vector<double>& keys = key[part % 2];
        for (int64_t i = 0; i < N; ++i) {
          const int64_t seen = causal ? i + 1 : N;
          const double middle = std::accumulate(keys.begin(), keys.begin() + seen, 0.0) / static_cast<double>(seen);
          for (int64_t j = 0; j < seen; ++j) {
            parts[(part * N + i) * N + j] +=
                query[part / 2][static_cast<size_t>(i)] * (keys[static_cast<size_t>(j)] - middle);
          }
        }
      }
    }
    for (int64_t j = 0; j < N; ++j) {
      double column = 0;
      for (int64_t i = 0; i < kLogitParts * N; ++i) column += parts[i * N + j];
      same_square += column * column / static_cast<double>(N);
    }
    for (int64_t i = 0; i < N * N; ++i) {
      double whole = 0;
      for (int part = 0; part < kLogitParts; ++part) whole += parts[part * N * N + i];
      whole_square += whole * whole;
      for (int part = 0; part < kLogitParts; ++part) {
        const double x = parts[part * N * N + i];
        with_whole[static_cast<size_t>(part)] += x * whole, square[static_cast<size_t>(part)] += x * x;
      }
    }
  }
  shares.same = same_square / whole_square;
  shares.overlap = 1;
  for (size_t part = 0; part < kLogitParts; ++part) {
    shares.share[part] = with_whole[part] / whole_square, shares.overlap -= square[part] / whole_square;
  }
  return shares;
}

TEST(LogitSplit, IsWhatItsHeaderSays) {
  const int64_t H = 3, E = 5, D = 14;
  const AttentionWeights weights = RandomWeights(H, E, D, true, 1);
  for (const int64_t N : {11, 64, 135}) {  // within a tile of queries, one whole tile, two and a part
    const std::vector<Tensor<double>> tokens = RandomTokens(6, N, D, 1, 1, 2);
    const std::vector<LogitShares> shares = ComputeShares(weights, tokens);
    ASSERT_EQ(std::ssize(shares), H);
    for (int64_t h = 0; h < H; ++h) {
      const LogitShares& got = shares[static_cast<size_t>(h)];
      const LogitShares expected = Naive(weights, tokens, h);
      for (size_t part = 0; part < kLogitParts; ++part) {
        EXPECT_NEAR(got.share[part], expected.share[part], ShareTolerance(D, E));
      }
      EXPECT_NEAR(got.overlap, expected.overlap, ShareTolerance(D, E));
      EXPECT_NEAR(got.same, expected.same, ShareTolerance(D, E));
      EXPECT_NEAR(std::accumulate(got.share.begin(), got.share.end(), 0.0), 1, 1e-12);
    }
  }
}

TEST(LogitSplit, OfACausalSequenceGoesOverTheKeysThatARowHas) {
  const int64_t H = 2, E = 5, D = 14;
  const AttentionWeights weights = RandomWeights(H, E, D, true, 1);
  for (const int64_t N : {11, 135}) {
    const std::vector<Tensor<double>> tokens = RandomTokens(5, N, D, 1, 1, 2);
    const std::vector<LogitShares> shares = ComputeShares(weights, tokens, /*causal=*/true);
    for (int64_t h = 0; h < H; ++h) {
      const LogitShares& got = shares[static_cast<size_t>(h)];
      const LogitShares expected = Naive(weights, tokens, h, /*causal=*/true);
      for (size_t part = 0; part < kLogitParts; ++part) {
        EXPECT_NEAR(got.share[part], expected.share[part], ShareTolerance(D, E));
      }
      EXPECT_NEAR(got.overlap, expected.overlap, ShareTolerance(D, E));
      EXPECT_TRUE(std::isnan(got.same));
    }
  }
}

// ‖b_K's terms‖ / ‖S‖ over the pairs that a causal sequence has.
TEST(LogitSplit, KeyBiasShareOfACausalSequence) {
  const int64_t H = 2, E = 4, D = 10, N = 9;
  const AttentionWeights weights = RandomWeights(H, E, D, true, 3);
  const std::vector<Tensor<double>> tokens = RandomTokens(1, N, D, 1, 1, 4);
  Tensor<double> read = tokens[0].Clone();
  for (int64_t i = 0; i < read.size(); ++i) read[i] = read[i] * weights.gamma[i % D] + weights.beta[i % D];
  const Tensor<double> q = algebra::Apply(algebra::Head(weights.query, 1, H), read),
                       k = algebra::Apply(algebra::Head(weights.key, 1, H), read);
  double stored = 0, bias = 0;
  for (int64_t i = 0; i < N; ++i) {
    for (int64_t j = 0; j <= i; ++j) {
      double logit = 0, of_bias = 0;
      for (int64_t e = 0; e < E; ++e) {
        logit += q[i * E + e] * k[j * E + e], of_bias += q[i * E + e] * weights.key.bias[E + e];
      }
      stored += logit * logit, bias += of_bias * of_bias;
    }
  }
  EXPECT_NEAR(ComputeShares(weights, tokens, /*causal=*/true)[1].key_bias, std::sqrt(bias / stored),
              ShareTolerance(D, E));
}

// Tokens behind their norm, as models with norms after the layers have them, give the same shares.
TEST(LogitSplit, TokensThatHavePassedTheirNormGiveTheSame) {
  const int64_t H = 2, E = 4, D = 10;
  AttentionWeights weights = RandomWeights(H, E, D, true, 3);
  std::vector<Tensor<double>> tokens = RandomTokens(4, 9, D, 1, 1, 4);
  const std::vector<LogitShares> before = ComputeShares(weights, tokens);
  for (Tensor<double>& text : tokens) {
    for (int64_t i = 0; i < text.size(); ++i) text[i] = text[i] * weights.gamma[i % D] + weights.beta[i % D];
  }
  weights.norm_is_stream = true;
  const std::vector<LogitShares> after = ComputeShares(weights, tokens);
  for (size_t h = 0; h < before.size(); ++h) {
    for (size_t part = 0; part < kLogitParts; ++part) {
      EXPECT_NEAR(after[h].share[part], before[h].share[part], ShareTolerance(D, E));
    }
    EXPECT_NEAR(after[h].same, before[h].same, ShareTolerance(D, E));
    EXPECT_NEAR(after[h].key_bias, before[h].key_bias, ShareTolerance(D, E));
  }
}

// A query that is its bias alone looks the same way from everywhere.
TEST(LogitSplit, QueriesOfABiasAloneAreAllTheSame) {
  const int64_t H = 2, E = 4, D = 10;
  AttentionWeights weights = RandomWeights(H, E, D, true, 3);
  weights.beta = {};
  for (double& w : weights.query.weight.span()) w = 0;
  for (const LogitShares& head : ComputeShares(weights, RandomTokens(4, 9, D, 1, 1, 4))) {
    EXPECT_NEAR(head.same, 1, ShareTolerance(D, E));
  }
}

TEST(LogitSplit, KeyBiasShareIsTheAlgebras) {
  const int64_t H = 2, E = 4, D = 10;
  const AttentionWeights weights = RandomWeights(H, E, D, true, 3);
  const std::vector<Tensor<double>> tokens = RandomTokens(1, 9, D, 1, 1, 4);
  const LogitShares shares = ComputeShares(weights, tokens)[1];
  Tensor<double> read = tokens[0].Clone();  // what the projections read: γ and β applied
  for (int64_t i = 0; i < read.size(); ++i) read[i] = read[i] * weights.gamma[i % D] + weights.beta[i % D];
  const algebra::QueryKeyView pair{algebra::Head(weights.query, 1, H), algebra::Head(weights.key, 1, H)};
  EXPECT_NEAR(shares.key_bias, algebra::KeyBiasShare(pair, read, read), ShareTolerance(D, E));
  EXPECT_EQ(ComputeShares(RandomWeights(H, E, D, false, 3), tokens)[1].key_bias, 0);
}

TEST(LogitSplit, SameImagesArePosition) {
  const AttentionWeights weights = RandomWeights(2, 4, 12, true, 5);
  for (const LogitShares& head : ComputeShares(weights, RandomTokens(3, 8, 12, 1, 0, 6))) {
    EXPECT_NEAR(head.share[kPositionPosition], 1, ShareTolerance(12, 4));
    EXPECT_NEAR(head.overlap, 0, ShareTolerance(12, 4));
  }
}

TEST(LogitSplit, WithoutAMeanAllIsContent) {
  const AttentionWeights weights = RandomWeights(2, 4, 12, false, 7);
  std::vector<Tensor<double>> tokens = RandomTokens(2, 8, 12, 0, 1, 8);
  for (int64_t i = 0; i < tokens[0].size(); ++i) tokens[1][i] = -tokens[0][i];
  for (const LogitShares& head : ComputeShares(weights, tokens)) {
    EXPECT_NEAR(head.share[kContentContent], 1, ShareTolerance(12, 4));
  }
}

// An image whose patches are all alike has no content in its keys, once their mean is off.
TEST(LogitSplit, FlatImagesHaveNoContentInTheirKeys) {
  const int64_t N = 7, D = 12;
  const AttentionWeights weights = RandomWeights(2, 4, D, true, 9);
  std::vector<Tensor<double>> tokens = RandomTokens(3, N, D, 1, 0, 10);
  Sampler sampler(11);
  for (Tensor<double>& image : tokens) {
    const auto flat = sampler.Normal<double>({D});
    for (int64_t i = 0; i < image.size(); ++i) image[i] += flat[i % D];
  }
  for (const LogitShares& head : ComputeShares(weights, tokens)) {
    EXPECT_NEAR(head.share[kPositionContent], 0, ShareTolerance(D, 4));
    EXPECT_NEAR(head.share[kContentContent], 0, ShareTolerance(D, 4));
    EXPECT_GT(head.share[kContentPosition], 0.01);
  }
}

TEST(LogitSplit, RefusesWhatDoesNotFit) {
  const AttentionWeights weights = RandomWeights(2, 4, 12, true, 5);
  EXPECT_THROW(LogitSplit(weights, Tensor<double>({8, 11})), Error);
  LogitSplit split(weights, Tensor<double>({8, 12}));
  LogitScratch scratch;
  EXPECT_THROW(split.Add(Tensor<double>({7, 12}), scratch), Error);
  for (const LogitShares& head : split.Shares()) EXPECT_EQ(head.share[kPositionPosition], 0);
}

class TokensTest : public testing::Test {
 protected:
  // 24×16 pixels in 4×4 patches: a grid of 6×4, class token, two registers.
  static io::Json Config(const char* extra = nullptr) {
    io::Json json = TinyConfig();
    json["model_args"].update({{"img_size", {24, 16}}, {"reg_tokens", 2}});
    json["pretrained_cfg"]["input_size"] = {1, 24, 16};
    if (extra) json["model_args"][extra] = true;
    return json;
  }
  model::Checkpoint Make(const io::Json& json, const std::function<void(TensorSet&)>& change = {}) {
    TensorSet tensors(model::DescribeTimm(json).config);
    if (change) change(tensors);
    WriteFile(folder_ / "config.json", json.dump());
    tensors.Write(folder_ / "model.safetensors");
    return model::Checkpoint::Open(folder_.path());
  }
  static TokenStatistics Measure(const model::Checkpoint& checkpoint, int64_t images, int* advanced = nullptr) {
    const model::Model model(checkpoint);
    return MeasureTokens(checkpoint, model, NoiseImages({images, 1, 24, 16}, 1), [&] {
      if (advanced) ++*advanced;
    });
  }

  const TemporaryFolder folder_;
};

TEST_F(TokensTest, AttentionIsTheModels) {
  const model::Checkpoint checkpoint = Make(Config());
  int advanced = 0;
  const int64_t B = 3, N = 27, H = 4, L = 2;
  const TokenStatistics statistics = Measure(checkpoint, B, &advanced);
  EXPECT_EQ(advanced, 2 * B);
  EXPECT_EQ(statistics.tokens, N);
  EXPECT_EQ(statistics.grid_height, 6);
  EXPECT_EQ(statistics.grid_width, 4);
  ASSERT_EQ(std::ssize(statistics.attention), L * H);
  ASSERT_EQ(std::ssize(statistics.logits), L * H);

  const model::Model model(checkpoint);
  Tensor<float> weights({B, H, N, N});
  model::Workspace<float> workspace;
  model::Outputs<float> outputs;
  outputs.attention.push_back({1, {0, N, weights}});
  const Tensor<float> images = NoiseImages({B, 1, 24, 16}, 1);
  model.Forward(images, workspace, outputs);
  for (int64_t h = 0; h < H; ++h) {
    HeadAttention sum;
    for (int64_t b = 0; b < B; ++b) {
      for (int64_t i = 0; i < N; ++i) {
        const float* row = weights.view().at(b, h, i);
        double place = 0, distance = 0, near = 0;
        for (int64_t j = 0; j < N; ++j) {
          sum.entropy -= row[j] * std::log(row[j]);
          if (i < 3 || j < 3) continue;
          const double dy = static_cast<double>((i - 3) / 4 - (j - 3) / 4),
                       dx = static_cast<double>((i - 3) % 4 - (j - 3) % 4);
          place += row[j], distance += row[j] * std::sqrt(dy * dy + dx * dx);
          if (std::max(std::abs(dy), std::abs(dx)) < 1.5) near += row[j];
        }
        sum.self += row[i], sum.class_token += row[0], sum.registers += row[1] + row[2];
        if (i >= 3) sum.distance += distance / place, sum.near += near / place;
      }
    }
    const double queries = B * N, patches = B * 24;
    const HeadAttention& head = statistics.attention[static_cast<size_t>(H + h)];
    // Attention is the same forward pass's, but for how many images share it: a few roundings of float.
    const double tolerance = DotTolerance<float>(N, 8);
    EXPECT_NEAR(head.entropy, sum.entropy / queries, tolerance);
    EXPECT_NEAR(head.distance, sum.distance / patches, tolerance);
    EXPECT_NEAR(head.near, sum.near / patches, tolerance);
    EXPECT_NEAR(head.self, sum.self / queries, tolerance);
    EXPECT_NEAR(head.class_token, sum.class_token / queries, tolerance);
    EXPECT_NEAR(head.registers, sum.registers / queries, tolerance);
  }
}

TEST_F(TokensTest, WithoutQueriesAttentionIsUniform) {
  const model::Checkpoint checkpoint = Make(Config(), [](TensorSet& tensors) {
    for (const char* name : {"blocks.0.attn.qkv.weight", "blocks.0.attn.qkv.bias"}) {
      Tensor<float>& qkv = tensors.at(name);
      std::fill_n(qkv.data(), qkv.size() / 3, 0.0f);
    }
  });
  const TokenStatistics statistics = Measure(checkpoint, 2);
  const double tolerance = DotTolerance<float>(27, 8);
  EXPECT_NEAR(statistics.uniform.entropy, std::log(27.0), tolerance);
  EXPECT_NEAR(statistics.uniform.class_token, 1.0 / 27, tolerance);
  EXPECT_NEAR(statistics.uniform.registers, 2.0 / 27, tolerance);
  for (size_t h = 0; h < 4; ++h) {
    const HeadAttention& head = statistics.attention[h];
    EXPECT_NEAR(head.entropy, statistics.uniform.entropy, tolerance);
    EXPECT_NEAR(head.distance, statistics.uniform.distance, tolerance);
    EXPECT_NEAR(head.near, statistics.uniform.near, tolerance);
    EXPECT_NEAR(head.self, 1.0 / 27, tolerance);
    EXPECT_EQ(statistics.logits[h].share[kPositionPosition], 0);
    EXPECT_LT(statistics.attention[4 + h].entropy, statistics.uniform.entropy);
  }
}

// In the first block the class token and the registers come from no image, and positions are all there is where the
// patches' weights are zero.
TEST_F(TokensTest, BlindModelsHavePositionsAlone) {
  const model::Checkpoint checkpoint = Make(Config(), [](TensorSet& tensors) {
    Tensor<float>& weight = tensors.at("patch_embed.proj.weight");
    std::fill_n(weight.data(), weight.size(), 0.0f);
  });
  for (const LogitShares& head : Measure(checkpoint, 3).logits) {
    EXPECT_NEAR(head.share[kPositionPosition], 1, ShareTolerance(16, 4));
  }
}

TEST_F(TokensTest, OneImageAndNormalisedQueriesDoNotSplit) {
  int advanced = 0;
  const model::Checkpoint plain = Make(Config());
  EXPECT_TRUE(Measure(plain, 1, &advanced).logits.empty());
  EXPECT_EQ(advanced, 1);
  const model::Checkpoint normalised = Make(Config("qk_norm"));
  const TokenStatistics statistics = Measure(normalised, 2);
  EXPECT_TRUE(statistics.logits.empty());
  EXPECT_EQ(std::ssize(statistics.attention), 8);
  const model::Model model(plain);
  EXPECT_THROW(MeasureTokens(plain, model, Tensor<float>({2, 24, 16}), [] {}), Error);
}

TEST(NoiseImages, AreSmoothAndNormalised) {
  const int64_t side = 32;
  const Tensor<float> images = NoiseImages({2, 3, side, side}, 1);
  const Tensor<float> again = NoiseImages({2, 3, side, side}, 1);
  double sum = 0, squares = 0, steps = 0;
  for (int64_t i = 0; i < images.size() / 2; ++i) {
    EXPECT_EQ(images[i], again[i]);
    sum += images[i], squares += images[i] * images[i];
    if (i % side > 0) steps += std::pow(images[i] - images[i - 1], 2);
  }
  const double pixels = 3 * side * side;
  EXPECT_NEAR(sum / pixels, 0, 1e-6);
  EXPECT_NEAR(squares / pixels, 1, 1e-5);
  EXPECT_LT(steps / pixels, 1);  // of white noise 2, the sum of two variances
}

TEST(TokenStatistics, OfTrainedModels) {
  const char* folder = ::getenv("QKV_REFERENCE");
  if (!folder) GTEST_SKIP() << "QKV_REFERENCE is not set";
  for (const char* name : {"digits-vit", "cifar10-vit"}) {
    const auto path = std::filesystem::path(folder) / name;
    const auto checkpoint = model::Checkpoint::Open(path);
    const auto expected = io::SafeTensors::Open(path / "expected.safetensors");
    const model::Model model(checkpoint);
    const TokenStatistics statistics =
        MeasureTokens(checkpoint, model, io::Convert<float>(*expected.Find("pixels")), [] {});
    EXPECT_EQ(std::ssize(statistics.attention), model.config().depth * model.config().block.attention.heads);
    for (const HeadAttention& head : statistics.attention) {
      EXPECT_GT(head.entropy, 0);
      EXPECT_LE(head.entropy, statistics.uniform.entropy);
      EXPECT_GT(head.near, 0);
      EXPECT_LE(head.near, 1);
      EXPECT_EQ(head.registers, 0);
    }
    for (const LogitShares& head : statistics.logits) {
      EXPECT_NEAR(std::accumulate(head.share.begin(), head.share.end(), 0.0), 1, 1e-12);
      EXPECT_LT(std::abs(head.overlap), 0.5);
      EXPECT_GT(head.key_bias, 0);
    }
  }
}

}  // namespace
}  // namespace qkv::inspect
