// The patch embedding in training.
#include "qkv/nn/training/patch_embed.h"

#include "tests/nn/training.h"

namespace qkv::nn {
namespace {

struct PatchEmbedLayer {
  int64_t images = 2, channels = 3, height = 5, width = 6, patch_height = 2, patch_width = 3, D = 4;
  bool channel_last = false, norm_in = false, norm_out = false;
  int64_t prefix = 0;  // tokens of each image that stand before the patches

  int64_t tokens() const { return height / patch_height * (width / patch_width); }
  int64_t features() const { return channels * patch_height * patch_width; }
  Shape x() const { return {images, channels, height, width}; }
  Shape y() const { return {images, tokens(), D}; }
  int64_t parameters() const { return D * (features() + 1) + (norm_in ? 2 * features() : 0) + (norm_out ? 2 * D : 0); }

  template <typename T>
  PatchEmbedParameters<T> Parameters(View<T> buffer) const {
    Cut<T> cut(buffer);
    PatchEmbedParameters<T> p;
    if (norm_in) p.norm_in = cut.Norm(features(), simd::NormKind::kLayer, 0.25);
    p.projection = cut.Linear(D, features());
    if (norm_out) p.norm_out = cut.Norm(D, simd::NormKind::kLayer, 0.25);
    return p;
  }

  template <typename T>
  void Run(View<const T> weights, View<const T> x, View<T> y, const Gradients<T>& g) const {
    const PatchEmbedSettings settings{patch_height, patch_width, channel_last};
    const PatchEmbedParameters<const T> p = Parameters<const T>(weights);
    Tensor<T> all({images, prefix + tokens(), D});
    const View<T> patches = all.view().slice(1, prefix, prefix + tokens());
    const auto copy = [&](View<const T> from, View<T> to) {
      for (int64_t i = 0; i < images * tokens(); ++i) {
        std::copy_n(from.at(i / tokens(), i % tokens()), D, to.at(i / tokens(), i % tokens()));
      }
    };
    Arena arena;
    PatchEmbedCache<T> cache;
    PatchEmbedForward<T>(x, p, settings, patches, cache, arena);
    copy(patches, y);
    for (int64_t n = 0; n < prefix; ++n) EXPECT_EQ(*all.view().at(1, n, D - 1), T{0}) << "wrote to another token";
    if (g.dy.empty()) return;
    copy(g.dy, patches);
    PatchEmbedBackward<T>(p, cache, patches, Parameters<T>(g.d), arena);
  }
};

TEST(PatchEmbedGradient, EqualsFiniteDifferences) {
  for (const bool norm_in : {false, true}) {
    for (const bool norm_out : {false, true}) {
      for (const int64_t prefix : {0, 2}) {
        CheckFiniteDifferences(
            PatchEmbedLayer{.channel_last = norm_in, .norm_in = norm_in, .norm_out = norm_out, .prefix = prefix},
            /*by_x=*/false);
      }
    }
  }
}

class PatchEmbedGradientTest : public IsaTest {};
QKV_FOR_ALL_ISAS(PatchEmbedGradientTest);

TEST_P(PatchEmbedGradientTest, FloatEqualsDouble) {
  CheckFloat(PatchEmbedLayer{.D = 33, .prefix = 1});
  CheckFloat(PatchEmbedLayer{.D = 33, .channel_last = true, .norm_in = true, .norm_out = true});
}

TEST_P(PatchEmbedGradientTest, SameBitsForAnyThreads) {
  CheckThreads(
      PatchEmbedLayer{.images = 6, .height = 32, .width = 48, .D = 70, .norm_in = true, .norm_out = true, .prefix = 1});
}

// Training computes what inference computes.
TEST(PatchEmbedGradient, ForwardIsInferences) {
  for (const bool norms : {false, true}) {
    const PatchEmbedLayer layer{.D = 20, .channel_last = norms, .norm_in = norms, .norm_out = norms};
    const Numbers<float> n(layer);
    const PatchEmbedParameters<const float> p = layer.Parameters<const float>(n.weights);
    const auto copy = [](View<const float> from) {
      Tensor<float> to(from.shape());
      std::copy_n(from.data(), from.size(), to.data());
      return to;
    };
    PatchEmbed<float> embed;
    embed.patch_height = layer.patch_height, embed.patch_width = layer.patch_width, embed.channel_last = norms;
    embed.projection = {simd::PackedMatrix<float>(p.projection.weight), copy(p.projection.bias)};
    if (norms) {
      embed.norm_in = {copy(p.norm_in.gamma), copy(p.norm_in.beta), 0.25f};
      embed.norm_out = {copy(p.norm_out.gamma), copy(p.norm_out.beta), 0.25f};
    }
    Tensor<float> expected(layer.y()), y(layer.y());
    Arena arena;
    PatchEmbedForward<float>(n.x, embed, expected, arena);
    layer.Run<float>(n.weights, n.x, y, {});
    EXPECT_LE(RelativeError(y, Cast<double>(expected)), LayerTolerance<float>());
  }
}

TEST(PatchEmbedGradient, RefusesOtherShapes) {
  const PatchEmbedLayer layer;
  const Numbers<float> n(layer);
  Tensor<float> tokens({2, 5, 4}), pixels({2, 1, 5, 6}), y(layer.y());
  Arena arena;
  PatchEmbedCache<float> cache;
  const auto p = layer.Parameters<const float>(n.weights);
  EXPECT_THROW(PatchEmbedForward<float>(n.x, p, {2, 3}, tokens, cache, arena), Error);
  EXPECT_THROW(PatchEmbedForward<float>(pixels, p, {2, 3}, y, cache, arena), Error);
}

}  // namespace
}  // namespace qkv::nn
