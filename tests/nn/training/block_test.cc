// A block in training: gradients against differences of the loss for every option, float against double, any number of
// threads, images alone and together.
#include "qkv/nn/training/block.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/nn/training.h"

namespace qkv::nn {
namespace {

struct BlockCase {
  const char* name;
  bool layer_scale = false;
  double dropout = 0, drop_path = 0, attention_dropout = 0;
  simd::Gate gate = simd::Gate::kNone;
  bool mlp_norm = false;
  int64_t rows = 0;  // 0: all
};
void PrintTo(const BlockCase& c, std::ostream* out) { *out << c.name; }

struct BlockLayer {
  BlockCase c;
  int64_t B = 3, N = 5, D = 6, H = 2, M = 8;
  int64_t first_image = 0;

  int64_t rows() const { return c.rows > 0 ? c.rows : N; }
  Shape x() const { return {B, N, D}; }
  Shape y() const { return {B, rows(), D}; }
  int64_t parameters() const {
    const int64_t outputs = c.gate == simd::Gate::kNone ? M : 2 * M;
    return 4 * D + 3 * D * D + 3 * D + D * D + D + outputs * (D + 1) + D * (M + 1) + (c.mlp_norm ? 2 * M : 0) +
           (c.layer_scale ? 2 * D : 0);
  }
  BlockSettings settings() const {
    BlockSettings s;
    s.attention.config.heads = H, s.attention.config.head_width = D / H;
    s.attention.dropout = c.attention_dropout;
    s.attention.seed = 3, s.attention.first_image = first_image;
    s.mlp.config.gate = c.gate;
    s.dropout = c.dropout, s.drop_path = c.drop_path;
    return s;
  }
  template <typename T>
  BlockParameters<T> Bind(View<T> buffer) const {
    Cut<T> cut(buffer);
    BlockParameters<T> p;
    p.norm1 = cut.Norm(D), p.norm2 = cut.Norm(D);
    p.attention.query_key_value = cut.Linear(3 * D, D), p.attention.projection = cut.Linear(D, D);
    p.mlp.fc1 = cut.Linear(c.gate == simd::Gate::kNone ? M : 2 * M, D), p.mlp.fc2 = cut.Linear(D, M);
    if (c.mlp_norm) p.mlp.norm = cut.Norm(M);
    if (c.layer_scale) p.scale1 = cut({D}), p.scale2 = cut({D});
    return p;
  }

  template <typename T>
  void Run(View<const T> weights, View<const T> x, View<T> y, const Gradients<T>& g) const {
    Arena arena;
    BlockCache<T> cache;
    const auto p = Bind<const T>(weights);
    Tensor<T> normed({B * N, D});
    BlockForward<T>(x, rows(), p, settings(), y, normed, cache, arena);
    std::ranges::fill(normed.span(), T(23));  // other blocks write on it
    if (g.dy.empty()) return;
    Tensor<T> dx(this->x());
    for (T& unread : dx.span()) unread = T(17);  // what no output depends on is not read
    for (int64_t b = 0; b < B; ++b) std::copy_n(g.dy.at(b), rows() * D, dx.view().at(b));
    BlockBackward<T>(rows(), p, settings(), cache, dx, Bind<T>(g.d), arena);
    for (int64_t i = 0; i < dx.size(); ++i) g.dx.data()[i] = (g.add ? g.dx.data()[i] : T(0)) + dx[i];
  }
};

class BlockGradient : public testing::TestWithParam<BlockCase> {};
INSTANTIATE_TEST_SUITE_P(Options, BlockGradient,
                         testing::Values(BlockCase{.name = "Plain"},
                                         BlockCase{.name = "LayerScale", .layer_scale = true},
                                         BlockCase{.name = "Dropout", .dropout = 0.3},
                                         BlockCase{.name = "DropPath", .drop_path = 0.4},
                                         BlockCase{.name = "Gate", .gate = simd::Gate::kFirst, .mlp_norm = true},
                                         BlockCase{.name = "FirstToken", .rows = 1},
                                         BlockCase{.name = "EverythingOfTwoTokens",
                                                   .layer_scale = true,
                                                   .dropout = 0.2,
                                                   .drop_path = 0.3,
                                                   .attention_dropout = 0.2,
                                                   .gate = simd::Gate::kLast,
                                                   .mlp_norm = true,
                                                   .rows = 2}),
                         [](const auto& test) { return test.param.name; });

TEST_P(BlockGradient, IsThatOfTheLoss) { CheckFiniteDifferences(BlockLayer{GetParam()}); }
TEST_P(BlockGradient, IsInFloatWhatItIsInDouble) {
  // Attention, then the MLP.
  CheckFloat(BlockLayer{.c = GetParam(), .N = 37, .D = 48, .H = 3, .M = 80}, 2);
}
TEST_P(BlockGradient, HasTheSameBitsForAnyNumberOfThreads) {
  CheckThreads(BlockLayer{.c = GetParam(), .B = 4, .N = 65, .D = 64, .H = 2, .M = 256});
}

// What is dropped is a matter of the image's place in the step.
TEST_P(BlockGradient, IsTheSameImageByImage) {
  const BlockLayer all{GetParam()};
  const Numbers<double> n(all);
  const Passes<double> together = RunPasses(all, n);
  Tensor<double> d = n.d_before.Clone(), y(all.y()), dx(all.x());
  for (int64_t b = 0; b < all.B; ++b) {
    const BlockLayer one{.c = GetParam(), .B = 1, .first_image = b};
    const auto image = [&](auto view) { return view.slice(0, b, b + 1); };
    one.Run<double>(n.weights, image(n.x.view()), image(y.view()), {image(n.dy.view()), image(dx.view()), false, d});
  }
  for (int64_t i = 0; i < y.size(); ++i) ASSERT_NEAR(y[i], together.y[i], 1e-13);
  for (int64_t i = 0; i < dx.size(); ++i) ASSERT_NEAR(dx[i], together.dx[i], 1e-12);
  for (int64_t i = 0; i < d.size(); ++i) ASSERT_NEAR(d[i], together.d[i], 1e-12);
}

// Dropped for real, and not all of it: the mean over many images stays.
TEST(BlockDropPath, LeavesImagesAsTheyWere) {
  const BlockLayer layer{.c = {.name = "", .drop_path = 0.5}, .B = 200};
  const Numbers<double> n(layer);
  Tensor<double> y(layer.y());
  layer.Run<double>(n.weights, n.x, y, {});
  int64_t same = 0;
  for (int64_t b = 0; b < layer.B; ++b) {
    same += std::equal(y.view().at(b), y.view().at(b) + layer.N * layer.D, n.x.view().at(b));
  }
  EXPECT_GT(same, 30);  // both branches, with a chance of 1/4: 50 ± 6
  EXPECT_LT(same, 70);
}

}  // namespace
}  // namespace qkv::nn
