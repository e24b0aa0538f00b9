// The fused call: shapes, layouts, groups, and what must not change a result.
#include "qkv/attention/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "qkv/core/parallel.h"
#include "tests/attention/cases.h"
#include "tests/support/isas.h"
#include "tests/support/threads.h"

namespace qkv::attention {
namespace {

class AttentionTest : public IsaTest {
 protected:
  RestoreThreads restore_;
};
QKV_FOR_ALL_ISAS(AttentionTest);

TEST_P(AttentionTest, ManyShapes) {
  for (const int64_t N : {1, 2, 5, 13, 16, 17, 33, 50}) {
    for (const int64_t E : {1, 3, 8, 16, 32, 63, 64, 65, 80, 130, 256}) {
      const Sizes sizes{.B = 2, .H = 2, .H_kv = 2, .N_q = N, .N_k = N, .E = E, .E_v = E};
      CheckAgainstReference(Case<float>(sizes), {});
      CheckAgainstReference(Case<double>(sizes), {});
    }
  }
}

TEST_P(AttentionTest, ManyBlocksOfKeys) {
  for (const int64_t N_k : {255, 256, 257, 500, 513, 1100}) {
    const Sizes sizes{.B = 1, .H = 2, .H_kv = 2, .N_q = 37, .N_k = N_k, .E = 24, .E_v = 24};
    CheckAgainstReference(Case<float>(sizes), {});
    CheckAgainstReference(Case<double>(sizes), {});
  }
  CheckAgainstReference(Case<float>({.B = 1, .H = 1, .H_kv = 1, .N_q = 600, .N_k = 300, .E = 64, .E_v = 64}), {});
}

// Few queries: the keys are cut into parts.
TEST_P(AttentionTest, FewQueriesOfManyKeys) {
  for (const int64_t N_q : {1, 3, 16}) {
    const Sizes sizes{.B = 2, .H = 4, .H_kv = 2, .N_q = N_q, .N_k = 2100, .E = 24, .E_v = 20};
    const Case<float> c(sizes);
    const auto bias = Sampler(2).Normal<float>({1, 4, N_q, 2100}, 0, 5);
    const auto mask = RandomMask({2, 1, N_q, 2100}, 0.01, 3);
    CheckAgainstReference(c, {});
    CheckAgainstReference(Case<double>(sizes), {.causal = Causal::kTopLeft});
    CheckAgainstReference(c, {.causal = Causal::kBottomRight, .soft_cap = 4, .bias = bias, .mask = mask}, 30);
    CheckAgainstReference(c, {.causal = Causal::kBottomRight, .dropout = 0.1f});
  }
  // One query that shares its keys with no other.
  for (const int64_t E : {1, 20, 64, 130}) {
    const Sizes sizes{.B = 2, .H = 2, .H_kv = 2, .N_q = 1, .N_k = 2101, .E = E, .E_v = E + 3};
    const Case<float> c(sizes);
    const auto bias = Sampler(2).Normal<float>({1, 2, 1, 2101}, 0, 5);
    const auto mask = RandomMask({2, 1, 1, 2101}, 0.01, 3);
    CheckAgainstReference(c, {});
    CheckAgainstReference(Case<double>(sizes), {.causal = Causal::kTopLeft});
    CheckAgainstReference(c, {.causal = Causal::kBottomRight, .soft_cap = 4, .bias = bias, .mask = mask}, 30);
  }
}

TEST_P(AttentionTest, FewQueriesOfInfiniteOrNoScores) {
  constexpr int64_t N_k = 2100;
  const Case<float> c({.B = 1, .H = 1, .H_kv = 1, .N_q = 3, .N_k = N_k, .E = 4, .E_v = 5});
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  Tensor<float> bias({1, 1, 3, N_k}), out({1, 1, 3, 5}), lse({1, 1, 3});
  bias[3] = bias[2000] = bias[2001] = kInfinity;
  for (int64_t j = 0; j < N_k; ++j) bias[N_k + j] = -kInfinity;
  Arena arena;
  double sum = 0;  // of the third row, which is an ordinary one
  for (int64_t j = 0; j < N_k; ++j) {
    double score = 0;
    for (int64_t e = 0; e < 4; ++e) score += static_cast<double>(c.q[2 * 4 + e]) * c.k[j * 4 + e];
    sum += std::exp(score / 2);
  }
  for (const int64_t rows : {3, 1}) {  // at once and one by one
    for (int64_t i = 0; i < 3; i += rows) {
      const auto cut = [&](auto& x) { return x.view().slice(2, i, i + rows); };
      Attention<float>(cut(c.q), c.k, c.v, {.bias = cut(bias)}, cut(out), arena, cut(lse));
    }
    for (int64_t e = 0; e < 5; ++e) {
      EXPECT_NEAR(out[e], (c.v[3 * 5 + e] + c.v[2000 * 5 + e] + c.v[2001 * 5 + e]) / 3, 1e-6);
      EXPECT_EQ(out[5 + e], 0);
      EXPECT_TRUE(std::isfinite(out[10 + e]));
    }
    EXPECT_EQ(lse[0], kInfinity);
    EXPECT_EQ(lse[1], -kInfinity);
    EXPECT_NEAR(lse[2], std::log(sum), 40 * UnitRoundoff<float>() * std::log(sum));
    for (float& x : out.span()) x = 77;
  }
}

TEST_P(AttentionTest, VisionTransformerShape) {
  CheckAgainstReference(Case<float>({.B = 1, .H = 12, .H_kv = 12, .N_q = 197, .N_k = 197, .E = 64, .E_v = 64}), {});
}

TEST_P(AttentionTest, OtherCountsOfKeysAndWidthsOfValues) {
  for (const int64_t N_q : {1, 7, 40}) {
    for (const int64_t N_k : {1, 9, 300}) {
      for (const int64_t E_v : {1, 5, 16, 70}) {
        const Sizes sizes{.B = 1, .H = 2, .H_kv = 1, .N_q = N_q, .N_k = N_k, .E = 20, .E_v = E_v};
        CheckAgainstReference(Case<float>(sizes), {});
        CheckAgainstReference(Case<double>(sizes), {});
      }
    }
  }
}

TEST_P(AttentionTest, GroupedAndMultiQueryHeads) {
  for (const int64_t H_kv : {1, 2, 3, 6}) {
    const Sizes sizes{.B = 2, .H = 6, .H_kv = H_kv, .N_q = 21, .N_k = 34, .E = 16, .E_v = 16};
    CheckAgainstReference(Case<float>(sizes), {});
    CheckAgainstReference(Case<double>(sizes), {});
  }
}

TEST_P(AttentionTest, LargeScores) {
  Case<float> c({.B = 1, .H = 1, .H_kv = 1, .N_q = 40, .N_k = 300, .E = 32, .E_v = 32});
  for (float& x : c.q.span()) x *= 20;  // softmax close to a choice of one key
  CheckAgainstReference(c, {});
  CheckAgainstReference(c, {.scale = 0.01f});
  CheckAgainstReference(c, {.scale = -1.f});
}

// The layout that one product for q, k and v leaves behind: [B, N, 3, H, E]; and its output [B, N, H, E].
TEST_P(AttentionTest, StridedInputsGiveTheSameBits) {
  constexpr int64_t B = 2, H = 3, N = 70, E = 64;
  auto fused = Sampler(3).Normal<float>({B, N, 3, H, E});
  const auto part = [&](int64_t which) {
    return View<const float>(fused.data() + which * H * E, {B, H, N, E}, {N * 3 * H * E, E, 3 * H * E, 1});
  };
  Tensor<float> dense[3], out({B, H, N, E}), strided({B, N, H, E});
  for (int which = 0; which < 3; ++which) {
    dense[which] = Tensor<float>({B, H, N, E});
    int64_t i = 0;
    for (int64_t b = 0; b < B; ++b) {
      for (int64_t h = 0; h < H; ++h) {
        for (int64_t n = 0; n < N; ++n) {
          for (int64_t e = 0; e < E; ++e) dense[which][i++] = *part(which).at(b, h, n, e);
        }
      }
    }
  }
  Arena arena;
  Attention<float>(dense[0], dense[1], dense[2], {}, out, arena);
  Attention<float>(part(0), part(1), part(2), {}, View<float>(strided.data(), {B, H, N, E}, {N * H * E, E, H * E, 1}),
                   arena);
  for (int64_t b = 0; b < B; ++b) {
    for (int64_t h = 0; h < H; ++h) {
      for (int64_t n = 0; n < N; ++n) {
        for (int64_t e = 0; e < E; ++e) {
          ASSERT_EQ(strided[((b * N + n) * H + h) * E + e], out[((b * H + h) * N + n) * E + e]);
        }
      }
    }
  }
}

TEST_P(AttentionTest, ResultDoesNotDependOnBatchHeadsOrThreads) {
  constexpr int64_t B = 3, H = 4, N = 300, E = 40;
  const Case<float> c({.B = B, .H = H, .H_kv = H, .N_q = N, .N_k = N, .E = E, .E_v = E});
  const auto bias = Sampler(2).Normal<float>({1, 1, N, N});
  for (const bool with_options : {false, true}) {
    Options<float> options;
    if (with_options) options.bias = bias, options.causal = Causal::kTopLeft;
    Tensor<float> whole({B, H, N, E});
    Arena arena;
    SetNumThreads(1);
    Attention<float>(c.q, c.k, c.v, options, whole, arena);
    for (const int threads : {1, 2, 5, 64}) {
      SetNumThreads(threads);
      Tensor<float> again({B, H, N, E});
      Attention<float>(c.q, c.k, c.v, options, again, arena);
      for (int64_t i = 0; i < whole.size(); ++i) ASSERT_EQ(again[i], whole[i]) << threads << " threads";
      // One head of one entry alone.
      Tensor<float> alone({1, 1, N, E});
      const auto one = [](const Tensor<float>& x) { return x.view().slice(0, 1, 2).slice(1, 2, 3); };
      Attention<float>(one(c.q), one(c.k), one(c.v), options, alone, arena);
      for (int64_t i = 0; i < alone.size(); ++i) ASSERT_EQ(alone[i], whole[(1 * H + 2) * N * E + i]);
    }
  }
}

TEST_P(AttentionTest, ARowDoesNotDependOnTheRowsBesideIt) {
  constexpr int64_t N = 70, E = 24;
  const Case<float> c({.B = 1, .H = 1, .H_kv = 1, .N_q = N, .N_k = 290, .E = E, .E_v = E});
  Tensor<float> whole({1, 1, N, E});
  Arena arena;
  Attention<float>(c.q, c.k, c.v, {}, whole, arena);
  for (int64_t row = 0; row < N; ++row) {
    Tensor<float> alone({1, 1, 1, E});
    Attention<float>(c.q.view().slice(2, row, row + 1), c.k, c.v, {}, alone, arena);
    for (int64_t e = 0; e < E; ++e) ASSERT_EQ(alone[e], whole[row * E + e]) << "row " << row;
  }
}

TEST_P(AttentionTest, LogSumExp) {
  for (const int64_t N_k : {1, 20, 600}) {
    const Case<float> c({.B = 2, .H = 2, .H_kv = 2, .N_q = 19, .N_k = N_k, .E = 16, .E_v = 16});
    Tensor<float> out({2, 2, 19, 16}), lse({2, 2, 19});
    Arena arena;
    Attention<float>(c.q, c.k, c.v, {}, out, arena, lse);
    for (int64_t r = 0; r < lse.size(); ++r) {
      double sum = 0;
      for (int64_t j = 0; j < N_k; ++j) {
        double score = 0;
        for (int64_t e = 0; e < 16; ++e) {
          score += static_cast<double>(c.q[r * 16 + e]) * c.k[((r / 19) * N_k + j) * 16 + e];
        }
        sum += std::exp(score / 4);
      }
      ASSERT_NEAR(lse[r], std::log(sum), 40 * UnitRoundoff<float>() * (1 + std::abs(std::log(sum))));
    }
  }
}

TEST_P(AttentionTest, AskingForLogSumExpChangesNothingElse) {
  for (const bool causal : {false, true}) {
    const Case<float> c({.B = 1, .H = 4, .H_kv = 2, .N_q = 40, .N_k = 300, .E = 64, .E_v = 64});
    const Options<float> options{.causal = causal ? Causal::kBottomRight : Causal::kNone};
    Tensor<float> with({1, 4, 40, 64}), without({1, 4, 40, 64}), lse({1, 4, 40});
    Arena arena;
    Attention<float>(c.q, c.k, c.v, options, with, arena, lse);
    Attention<float>(c.q, c.k, c.v, options, without, arena);
    EXPECT_TRUE(std::equal(with.data(), with.data() + with.size(), without.data()));
  }
}

TEST_P(AttentionTest, MemoryGrowsWithRowsNotTheirSquare) {
  SetNumThreads(2);
  const auto peak = [](int64_t N) {
    const Case<float> c({.B = 1, .H = 1, .H_kv = 1, .N_q = N, .N_k = N, .E = 8, .E_v = 8});
    Tensor<float> out({1, 1, N, 8});
    Arena arena;
    Attention<float>(c.q, c.k, c.v, {}, out, arena);
    return arena.peak_bytes();
  };
  const size_t short_peak = peak(1024);
  EXPECT_LE(peak(4096), 4 * short_peak);
  EXPECT_LT(peak(4096), sizeof(float) * 4096 * 4096 / 8);
}

// As many tokens as a slide has tiles, for some of its queries.
TEST_P(AttentionTest, ASlideOf65536Tokens) {
  constexpr int64_t kTokens = 65536, kQueries = 130, kWidth = 16, kChecked = 3;
  SetNumThreads(2);
  const Case<float> c({.B = 1, .H = 1, .H_kv = 1, .N_q = kQueries, .N_k = kTokens, .E = kWidth, .E_v = kWidth});
  Tensor<float> out({1, 1, kQueries, kWidth});
  Arena arena;
  Attention<float>(c.q, c.k, c.v, {}, out, arena);
  EXPECT_LT(arena.peak_bytes(), sizeof(float) * kTokens * kQueries / 4) << "the weights are never there at a time";
  const auto last = c.q.view().slice(2, kQueries - kChecked, kQueries);
  Tensor<double> q({1, 1, kChecked, kWidth}), exact({1, 1, kChecked, kWidth});
  for (int64_t i = 0; i < q.size(); ++i) q[i] = last.data()[i];
  ReferenceAttention(q, Cast<double>(c.k), Cast<double>(c.v), {}, exact);
  const double tolerance = Tolerance(c, {});
  for (int64_t i = 0; i < exact.size(); ++i) {
    EXPECT_NEAR(out[(kQueries - kChecked) * kWidth + i], exact[i], tolerance) << i;
  }
}

TEST_P(AttentionTest, NothingToDo) {
  Tensor<float> q({1, 1, 0, 4}), k({1, 1, 3, 4}), out({1, 1, 0, 4});
  Arena arena;
  Attention<float>(q, k, k, {}, out, arena);
  // No keys at all: like a row that is fully masked.
  Tensor<float> queries({1, 1, 3, 4}), none({1, 1, 0, 4}), zeros({1, 1, 3, 4}), lse({1, 1, 3});
  zeros[5] = 7;
  Attention<float>(queries, none, none, {}, zeros, arena, lse);
  for (int64_t i = 0; i < 12; ++i) EXPECT_EQ(zeros[i], 0);
  EXPECT_EQ(lse[0], -std::numeric_limits<float>::infinity());
}

TEST_P(AttentionTest, WrongShapesAreRefused) {
  Tensor<float> q({2, 4, 5, 8}), k({2, 2, 6, 8}), v({2, 2, 6, 3}), out({2, 4, 5, 3}), other({2, 3, 6, 8});
  Arena arena;
  Attention<float>(q, k, v, {}, out, arena);
  EXPECT_THROW(Attention<float>(q, other, v, {}, out, arena), Error);
  EXPECT_THROW(Attention<float>(q, k, q, {}, out, arena), Error);
  EXPECT_THROW(Attention<float>(q, k, v, {}, q, arena), Error);
  Tensor<float> bias({1, 1, 5, 7}), lse({2, 4, 6});
  EXPECT_THROW(Attention<float>(q, k, v, {.bias = bias}, out, arena), Error);
  EXPECT_THROW(Attention<float>(q, k, v, {}, out, arena, lse), Error);
}

}  // namespace
}  // namespace qkv::attention
