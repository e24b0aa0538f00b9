// Smaller models: exact at full rank, worse with every feature less, within the certificate's bounds, and better on the
// tokens that they were fitted to.
#include "qkv/lab/truncate.h"

#include <numeric>

#include "qkv/lab/certificate.h"
#include "qkv/lab/merge.h"
#include "tests/lab/models.h"

namespace qkv::lab {
namespace {

using model::Checkpoint;

// The golden's pixels through its model.
BlockTokens GoldenTokens(const Checkpoint& checkpoint, const std::string& golden) {
  BlockTokens tokens(checkpoint);
  const auto expected = io::SafeTensors::Open(GoldenFolder(golden) / "expected.safetensors");
  tokens.Add(model::Model(checkpoint), io::Convert<float>(*expected.Find("pixels")));
  return tokens;
}

class Truncation : public testing::TestWithParam<std::string> {
 protected:
  Checkpoint Written(int64_t rank, const BlockTokens* calibration = nullptr) {
    const auto folder = folder_ / fmt::format("{}", ++written_);
    Truncate(original_, folder, {.rank = rank, .calibration = calibration, .write = {.dtype = DType::kF64}});
    return Checkpoint::Open(folder);
  }

  TemporaryFolder folder_;
  int written_ = 0;
  Checkpoint original_ = Checkpoint::Open(GoldenFolder(GetParam()));
};
INSTANTIATE_TEST_SUITE_P(Models, Truncation, testing::Values("timm_vit", "vit_pytorch_vit", "hf_vit", "hf_dinov2"),
                         [](const auto& golden) { return golden.param; });

TEST_P(Truncation, AtFullRankIsExact) {
  const int64_t rank =
      std::min(original_.description.config.block.attention.head_width, original_.description.config.block.width);
  const Checkpoint full = Written(rank);
  EXPECT_EQ(full.description.config.block.attention.kind, nn::AttentionKind::kLowRank);
  const auto exact = ComputeOutputs<double>(original_, GetParam()), ours = ComputeOutputs<double>(full, GetParam());
  const auto rounded = ComputeOutputs<float>(original_, GetParam());
  for (const auto& [name, tensor] : exact) {
    EXPECT_LE(MaxDifference(ours.at(name), tensor), RewritingTolerance<double>(rounded.at(name), tensor)) << name;
  }
}

// Over all heads the error of the logits falls with the rank; for the fitted pair on its own tokens it is the least
// there is, head by head, and falls for each.
TEST_P(Truncation, ErrorsFallWithTheRankAndTheFitIsBestOnItsTokens) {
  const BlockTokens tokens = GoldenTokens(original_, GetParam());
  double weights_before = INFINITY;
  std::vector<double> fitted_before;
  for (int64_t rank = 1; rank <= original_.description.config.block.attention.head_width; ++rank) {
    const auto weights = CompareHeads(original_, Written(rank), tokens);
    const auto fitted = CompareHeads(original_, Written(rank, &tokens), tokens);
    double sum = 0;
    for (size_t i = 0; i < weights.size(); ++i) {
      sum += std::pow(weights[i].error.logits, 2);
      const double before = fitted_before.empty() ? INFINITY : fitted_before[i];
      EXPECT_LE(fitted[i].error.logits, before * (1 + 1e-9) + 1e-9);
    }
    EXPECT_LE(sum, weights_before * (1 + 1e-9) + 1e-18) << "rank " << rank;
    weights_before = sum;
    fitted_before.clear();
    double fitted_sum = 0;
    for (const HeadError& e : fitted) {
      fitted_before.push_back(e.error.logits);
      fitted_sum += std::pow(e.error.logits, 2);
    }
    EXPECT_LE(fitted_sum, sum * (1 + 1e-9) + 1e-18) << "rank " << rank;
  }
}

TEST_P(Truncation, KeepsTheCertificatesBounds) {
  const BlockTokens tokens = GoldenTokens(original_, GetParam());
  const int64_t rank = std::max<int64_t>(1, original_.description.config.block.attention.head_width / 2);
  const auto errors = CompareHeads(original_, Written(rank), tokens);
  int bounded = 0;
  for (const Certificate& c : Certify(original_, rank)) {
    if (c.rewriting != Rewriting::kTruncate || c.verdict != Exactness::kApproximate) continue;
    const auto found =
        std::ranges::find_if(errors, [&](const HeadError& e) { return e.block == c.block && e.head == c.head; });
    // Both are up to a constant for each query; the mean taken off is within twice the best one.
    EXPECT_LE(found->error.logits_max, 2 * c.logit_bound);
    EXPECT_LE(found->error.attention_mean, c.attention_bound);
    EXPECT_LE(found->error.attention_max, c.attention_bound);
    ++bounded;
  }
  EXPECT_GT(bounded, 0);
}

TEST_P(Truncation, MakesTheModelSmaller) {
  const model::VitConfig& c = original_.description.config;
  const lab::Written written = Truncate(original_, folder_ / "out", {.rank = 1});
  EXPECT_EQ(written.after.query_key, c.depth * 2 * c.block.attention.heads * (c.block.width + c.block.attention.bias));
  EXPECT_LT(written.after.parameters, written.before.parameters);
  EXPECT_LT(written.after.bytes, written.before.bytes);
  EXPECT_LT(written.after.multiply_adds, written.before.multiply_adds);
}

// From a merged model: the same pair as from the model that it was made of.
TEST_P(Truncation, OfAMergedModelIsThatOfItsOriginal) {
  Merge(original_, folder_ / "merged", {.dtype = DType::kF64});
  const Checkpoint merged = Checkpoint::Open(folder_ / "merged");
  Truncate(merged, folder_ / "small", {.rank = 2, .write = {.dtype = DType::kF64}});
  const auto direct = ComputeOutputs<double>(Written(2), GetParam());
  const auto by_way = ComputeOutputs<double>(Checkpoint::Open(folder_ / "small"), GetParam());
  const auto rounded = ComputeOutputs<float>(original_, GetParam()),
             exact_float = ComputeOutputs<float>(original_, GetParam());
  const auto exact = ComputeOutputs<double>(original_, GetParam());
  for (const auto& [name, tensor] : direct) {
    EXPECT_LE(MaxDifference(by_way.at(name), tensor), 8 * RewritingTolerance<double>(rounded.at(name), exact.at(name)))
        << name;
  }
}

TEST(Truncate, WrongRanksAndNormedQueriesAreRefused) {
  const TemporaryFolder folder;
  const Checkpoint plain = Checkpoint::Open(GoldenFolder("timm_vit"));
  EXPECT_THROW(Truncate(plain, folder / "out", {.rank = 0}), Error);
  EXPECT_THROW(Truncate(plain, folder / "out", {.rank = plain.description.config.block.attention.head_width + 1}),
               Error);
  EXPECT_THROW(Truncate(Checkpoint::Open(GoldenFolder("timm_qk_norm")), folder / "out", {.rank = 1}), Error);
  EXPECT_EQ(folder.Count(), 0);
  EXPECT_THROW(CompareHeads(plain, Checkpoint::Open(GoldenFolder("timm_odd_width")), BlockTokens(plain)), Error);
}

// What the blocks read is what the family's own code gives to the projections.
TEST(Truncate, RotatedQueriesAreRefusedAndObstruct) {
  model::Checkpoint checkpoint = model::Checkpoint::Open(GoldenFolder("timm_vit"));
  model::VitConfig& config = checkpoint.description.config;
  RequireLinearScores(checkpoint, "truncate");
  EXPECT_EQ(MakeAttentionTraits(config).rope, 0);
  config.rotary = model::PatchRotary::kPatches;
  EXPECT_THROW(RequireLinearScores(checkpoint, "truncate"), Error);
  EXPECT_EQ(MakeAttentionTraits(config).rope, config.block.attention.query_width());
}

TEST(BlockTokens, AreTheNormalisedHiddenStates) {
  const Checkpoint checkpoint = Checkpoint::Open(GoldenFolder("timm_vit"));
  const auto expected = io::SafeTensors::Open(GoldenFolder("timm_vit") / "expected.safetensors");
  const BlockTokens tokens = GoldenTokens(checkpoint, "timm_vit");
  EXPECT_EQ(tokens.blocks(), checkpoint.description.config.depth);
  const io::StoredTensor* stored = expected.Find("hidden.1.float64");
  ASSERT_NE(stored, nullptr);
  const Tensor<double> hidden = io::Convert<double>(*stored);  // [B, N, D]
  EXPECT_EQ(tokens.images(), hidden.dim(0));
  const auto layer = inspect::ReadAttention(checkpoint, 1);
  const int64_t D = hidden.dim(2);
  const Tensor<double> first = tokens.Of(1, 0);
  for (int64_t i = 0; i < first.dim(0); ++i) {
    const double* x = hidden.data() + i * D;
    const double mean = std::accumulate(x, x + D, 0.0) / static_cast<double>(D);
    double variance = 0;
    for (int64_t d = 0; d < D; ++d) variance += std::pow(x[d] - mean, 2) / static_cast<double>(D);
    for (int64_t d = 0; d < D; ++d) {
      const double y = (x[d] - mean) / std::sqrt(variance + layer.eps) * layer.gamma[d] + layer.beta[d];
      EXPECT_NEAR(first[i * D + d], y, 1e-4);  // of a forward pass in float
    }
  }
  // Centred, the tokens of each image sum to zero.
  const Tensor<double> centred = tokens.All(1, true);
  for (int64_t d = 0; d < D; ++d) {
    double sum = 0;
    for (int64_t i = 0; i < first.dim(0); ++i) sum += centred[i * D + d];
    EXPECT_NEAR(sum, 0, 1e-12 * static_cast<double>(first.dim(0)));
  }
}

}  // namespace
}  // namespace qkv::lab
