// Rollout against plain matrix products of the originals' attention (tests/golden/rollout.py).
#include "qkv/inspect/rollout.h"

#include "tests/inspect/goldens.h"
#include "tests/support/goldens.h"

namespace qkv::inspect {
namespace {

class RolloutOf : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Models, RolloutOf,
                         testing::Values("timm_vit", "timm_reg4_cls", "timm_reg4_gap", "timm_non_square",
                                         "timm_resized", "timm_distilled", "timm_qk_norm", "hf_vit_non_square",
                                         "hf_dinov2_registers_resized", "vit_pytorch_non_square",
                                         "vit_pytorch_simple_non_square"));

// The settings that stand in the name of a tensor, "mean.0.9.0".
RolloutRequest Settings(const std::string& name, int64_t depth) {
  const size_t dot = name.find('.'), end = name.rfind('.');
  const std::string fusion = name.substr(0, dot);
  return {.first_block = std::stoll(name.substr(end + 1)),
          .last_block = depth - 1,
          .fusion = fusion == "mean"  ? Fusion::kMean
                    : fusion == "max" ? Fusion::kMax
                                      : Fusion::kMin,
          .discard = std::stod(name.substr(dot + 1, end - dot - 1)),
          .query = {Query::Kind::kAll, 0}};
}

template <typename T>
void CheckRollout(const std::string& name) {
  const GoldenModel<T> golden(name);
  const auto reference = io::SafeTensors::Open(golden.folder / "rollout.safetensors");
  model::Workspace<T> workspace;
  int settings = 0;
  for (const io::StoredTensor& stored : reference.tensors()) {
    if (stored.name.ends_with(".float64")) continue;
    ++settings;
    const auto single = io::Convert<double>(stored);
    const auto exact = io::Convert<double>(*reference.Find(stored.name + ".float64"));
    RolloutRequest request = Settings(stored.name, golden.vit.config().depth);
    for (int64_t b = 0; b < golden.pixels.dim(0); ++b) {
      const auto image = golden.pixels.view().slice(0, b, b + 1);
      request.query = {Query::Kind::kAll, 0};
      const Tensor<T> all = AttentionRollout<T>(golden.vit, image, request, workspace);
      const double tolerance = Tolerance<T>(name, single, exact);
      ExpectNear<T>(all, exact.view()[b], tolerance, name + stored.name);
      const int64_t last = all.dim(0) - 1;
      request.query = {Query::Kind::kToken, last};
      const Tensor<T> row = AttentionRollout<T>(golden.vit, image, request, workspace);
      ExpectNear<T>(row, exact.view().slice(1, last, last + 1)[b], tolerance, name + stored.name + ", one row");
    }
  }
  EXPECT_EQ(settings, 7);
}

TEST_P(RolloutOf, FloatIsTheProductOfTheOriginals) { CheckRollout<float>(GetParam()); }
TEST_P(RolloutOf, DoubleIsTheProductOfTheOriginals) { CheckRollout<double>(GetParam()); }

TEST(Rollout, MeanOfThePatchesIsTheMeanOfTheirRows) {
  const GoldenModel<double> golden("timm_reg4_gap");
  const auto image = golden.pixels.view().slice(0, 0, 1);
  model::Workspace<double> workspace;
  RolloutRequest request{.last_block = 1, .discard = 0.3, .query = {Query::Kind::kAll, 0}};
  const auto all = AttentionRollout<double>(golden.vit, image, request, workspace);
  request.query = {Query::Kind::kMean, 0};
  const auto mean = AttentionRollout<double>(golden.vit, image, request, workspace);
  const int64_t N = all.dim(1), prefix = golden.vit.config().prefix();
  double total = 0;
  for (int64_t k = 0; k < N; ++k) {
    double expected = 0;
    for (int64_t q = prefix; q < N; ++q) expected += *all.view().at(q, k) / static_cast<double>(N - prefix);
    EXPECT_NEAR(mean[k], expected, 1e-14);
    total += mean[k];
  }
  EXPECT_NEAR(total, 1, 1e-14);
}

// So many tokens pass in several pieces, on several threads, and are ranked across them.
TEST(Rollout, ManyTokensAreTheProductToo) {
  const GoldenModel<double> golden("timm_vit");
  const model::VitConfig& c = golden.vit.config();
  const int64_t side = 8 * 25, N = golden.vit.TokensFor(side, side);
  Tensor<double> pixels({1, 3, side, side});
  for (int64_t i = 0; i < pixels.size(); ++i) pixels[i] = std::sin(0.37 * static_cast<double>(i % 7919));
  model::Workspace<double> workspace;
  const auto weights =
      AttentionMaps<double>(golden.vit, pixels, {{0, 1}, {}, Fusion::kMean, {Query::Kind::kAll, 0}}, workspace);
  ASSERT_GT(c.block.attention.heads * N * N, int64_t{1} << 20);
  std::vector<double> row(static_cast<size_t>(N));
  row[0] = 1;
  const auto drop = static_cast<size_t>(static_cast<double>(N * N) * 0.8);
  for (int64_t block = 1; block >= 0; --block) {
    const View<const double> fused = weights.view()[block][0];  // [N, N]
    std::vector<double> sorted(fused.data(), fused.data() + N * N);
    std::nth_element(sorted.begin(), sorted.begin() + static_cast<int64_t>(drop), sorted.end());
    std::vector<double> next(row.size());
    for (int64_t i = 0; i < N; ++i) {
      std::vector<double> mixed(row.size());
      double sum = 0;
      for (int64_t k = 0; k < N; ++k) {
        const double weight = *fused.at(i, k), kept = weight >= sorted[drop] || i + k == 0 ? weight : 0;
        sum += mixed[static_cast<size_t>(k)] = (kept + (i == k)) / 2;
      }
      for (size_t k = 0; k < row.size(); ++k) next[k] += row[static_cast<size_t>(i)] * mixed[k] / sum;
    }
    row = next;
  }
  const RolloutRequest request{.last_block = 1, .discard = 0.8, .query = {}};
  const auto got = AttentionRollout<double>(golden.vit, pixels, request, workspace);
  for (int64_t k = 0; k < N; ++k) EXPECT_NEAR(got[k], row[static_cast<size_t>(k)], 1e-14);
}

TEST(Rollout, OfAnImageIsThatOfItsPixels) {
  for (const char* name : {"timm_reg4_cls", "timm_reg4_gap"}) {
    const auto model = model::Model::Load(GoldenFolder(name));
    const image::Image image = image::DecodeFile(SourceFolder() / "examples/digits/8-black.png");
    const Tensor<float> map = AttentionRollout(model, image), pixels = model.Pixels(image);
    const model::VitConfig& c = model.config();
    const Query query = c.class_token ? Query{} : Query{Query::Kind::kMean, 0};
    model::Workspace<float> workspace;
    const Tensor<float> row =
        AttentionRollout<float>(model.vit(), pixels, {.last_block = c.depth - 1, .query = query}, workspace);
    ASSERT_EQ(map.shape(), Shape({c.grid_height(), c.grid_width()}));
    for (int64_t i = 0; i < map.size(); ++i) EXPECT_EQ(map[i], row[c.prefix() + i]);
  }
}

TEST(Rollout, RefusesWhatIsNotThere) {
  const GoldenModel<float> golden("timm_vit");
  const auto image = golden.pixels.view().slice(0, 0, 1);
  model::Workspace<float> workspace;
  const auto ask = [&](const RolloutRequest& request) {
    AttentionRollout<float>(golden.vit, image, request, workspace);
  };
  EXPECT_NO_THROW(ask({.last_block = 1}));
  EXPECT_THROW(ask({.last_block = 2}), Error);
  EXPECT_THROW(ask({.first_block = 1, .last_block = 0}), Error);
  EXPECT_THROW(ask({.first_block = -1, .last_block = 0}), Error);
  EXPECT_THROW(ask({.last_block = 1, .discard = 1}), Error);
  EXPECT_THROW(ask({.last_block = 1, .discard = NAN}), Error);
  EXPECT_THROW(ask({.last_block = 1, .query = {Query::Kind::kToken, 10}}), Error);
}

}  // namespace
}  // namespace qkv::inspect
