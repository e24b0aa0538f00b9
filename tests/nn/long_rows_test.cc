// Layers take the rows of a large image some at a time. Each row has the bits that it has among few.
#include <gtest/gtest.h>

#include <algorithm>

#include "qkv/nn/attention.h"
#include "qkv/nn/mlp.h"
#include "tests/nn/layers.h"

namespace qkv::nn {
namespace {

using T = float;

// The last rows of `all`, [1, N, D], are `some`, [1, n, D].
void ExpectLast(const Tensor<T>& all, const Tensor<T>& some) {
  ASSERT_TRUE(std::equal(some.data(), some.data() + some.size(), all.data() + (all.size() - some.size())));
}

Tensor<T> Last(const Tensor<T>& all, int64_t rows) {
  Tensor<T> last({1, rows, all.dim(2)});
  std::copy_n(all.data() + (all.size() - last.size()), last.size(), last.data());
  return last;
}

TEST(LongRows, OfAnMlp) {
  constexpr int64_t kN = 9'001, kD = 8, kM = 1024, kSome = 77;
  ASSERT_LT(RowsTogether<T>(kN, kM), kN);
  ASSERT_EQ(RowsTogether<T>(kSome, kM), kSome);
  Sampler sampler(3);
  Mlp<T> mlp;
  mlp.fc1 = NamedLinear(sampler, kM, kD).As<T>();
  mlp.fc2 = NamedLinear(sampler, kD, kM).As<T>();
  Tensor<T> x = sampler.Normal<T>({1, kN, kD}), some = Last(x, kSome);
  Arena arena;
  MlpForward<T>(x, mlp, nullptr, x, x, arena);
  MlpForward<T>(some, mlp, nullptr, some, some, arena);
  ExpectLast(x, some);
  EXPECT_LT(arena.peak_bytes(), sizeof(T) * kN * kM);
}

TEST(LongRows, OfQueries) {
  constexpr int64_t kN = 11, kD = 12, kH = 16, kE = 64, kQueries = 9'003, kSome = 130;
  ASSERT_LT(RowsTogether<T>(kQueries, kH * kE), kQueries);
  Sampler sampler(5);
  AttentionLayer<T> layer;
  layer.heads = kH, layer.head_width = kE;
  layer.query = NamedLinear(sampler, kH * kE, kD).As<T>();
  layer.query_key_value = NamedLinear(sampler, 2 * kH * kE, kD).As<T>();
  layer.projection = NamedLinear(sampler, kD, kH * kE).As<T>();
  const Tensor<T> keys = sampler.Normal<T>({1, kN, kD});
  Tensor<T> x = sampler.Normal<T>({1, kQueries, kD}), some = Last(x, kSome);
  Arena arena;
  AttentionForward<T>(x, keys, layer, nullptr, x, x, arena);
  AttentionForward<T>(some, keys, layer, nullptr, some, some, arena);
  ExpectLast(x, some);
}

TEST(LongRows, OfPatches) {
  constexpr int64_t kRows = 420, kColumns = 450, kP = 4, kD = 5, kSomeRows = 3;
  ASSERT_LT(RowsTogether<T>(kRows * kColumns, 3 * kP * kP), kRows * kColumns);
  Sampler sampler(6);
  PatchEmbed<T> embed;
  embed.patch_height = embed.patch_width = kP;
  embed.projection = NamedLinear(sampler, kD, 3 * kP * kP).As<T>();
  Tensor<T> pixels({2, 3, kRows * kP, kColumns * kP + 1});
  for (int64_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<T>(i * 7919 % 1021) / 512 - 1;
  Tensor<T> last({1, 3, kSomeRows * kP, kColumns * kP + 1});
  for (int64_t c = 0; c < 3; ++c) {
    std::copy_n(pixels.view().at(1, c, (kRows - kSomeRows) * kP), last.size() / 3, last.view().at(0, c));
  }
  Tensor<T> all({2, kRows * kColumns, kD}), some({1, kSomeRows * kColumns, kD});
  Arena arena;
  PatchEmbedForward<T>(pixels, embed, all, arena);
  PatchEmbedForward<T>(last, embed, some, arena);
  ExpectLast(all, some);
  EXPECT_LT(arena.peak_bytes(), sizeof(T) * 2 * kRows * kColumns * 3 * kP * kP / 2);
}

}  // namespace
}  // namespace qkv::nn
