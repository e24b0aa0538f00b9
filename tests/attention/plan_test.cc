#include "qkv/attention/plan.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "qkv/core/error.h"
#include "qkv/core/tensor.h"
#include "tests/support/sampler.h"
#include "tests/support/tolerance.h"

namespace qkv::attention {
namespace {

// A head's matrices, and products of them by loops that count what they do.
struct Counted {
  Tensor<double> value;
  double magnitude = 0;  // bounds Σ|a||b| of every entry

  int64_t rows() const { return value.dim(0); }
  int64_t columns() const { return value.dim(1); }
};

class Loops {
 public:
  Counted Make(int64_t rows, int64_t columns) { return {sampler_.Normal<double>({rows, columns}), 8}; }

  Counted Multiply(const Counted& a, const Counted& b) {
    Counted c{Tensor<double>({a.rows(), b.columns()}), a.magnitude * b.magnitude * static_cast<double>(a.columns())};
    for (int64_t i = 0; i < a.rows(); ++i) {
      for (int64_t j = 0; j < b.columns(); ++j) {
        for (int64_t k = 0; k < a.columns(); ++k, ++multiply_adds) {
          *c.value.view().at(i, j) += *a.value.view().at(i, k) * *b.value.view().at(k, j);
        }
      }
    }
    return c;
  }

  // The chain a b c d in one of its five orders; b c is free where it was multiplied beforehand.
  Counted Chain(Order order, const Counted& a, const Counted& b, const Counted& c, const Counted& d) {
    const auto beforehand = [&] {
      const double before = multiply_adds;
      Counted bc = Multiply(b, c);
      multiply_adds_beforehand += multiply_adds - before;
      multiply_adds = before;
      return bc;
    };
    switch (order) {
      case Order::kProjected:
        return Multiply(Multiply(a, b), Multiply(c, d));
      case Order::kAbsorbed:
        return Multiply(Multiply(Multiply(a, b), c), d);
      case Order::kMerged:
        return Multiply(Multiply(a, beforehand()), d);
      case Order::kKeysAbsorbed:
        return Multiply(a, Multiply(b, Multiply(c, d)));
      case Order::kKeysMerged:
        return Multiply(a, Multiply(beforehand(), d));
    }
    return {};
  }

  double multiply_adds = 0, multiply_adds_beforehand = 0;

 private:
  Sampler sampler_{11};
};

void ExpectClose(const Counted& got, const Counted& expected, int64_t terms) {
  for (int64_t i = 0; i < got.value.size(); ++i) {
    ASSERT_NEAR(got.value[i], expected.value[i], 2 * DotTolerance<double>(terms, expected.magnitude));
  }
}

std::vector<Workload> Workloads() {
  std::vector<Workload> all;
  for (const int64_t m : {1, 3, 9}) {
    for (const int64_t N : {2, 9}) {
      for (const int64_t E : {2, 5}) {
        for (const int64_t H : {1, 3}) {
          all.push_back({.queries = m, .keys = N, .width = 4, .heads = H, .head_width = E});
          all.push_back(
              {.queries = m, .keys = N, .width = 4, .heads = H, .head_width = E, .value_width = 3, .batch = 2});
        }
      }
    }
  }
  return all;
}

// The scores of every head, X_q W_Qᵀ W_K Xᵀ, in every order: one result, and as many multiply-adds as the formula says.
TEST(Plan, CountsTheScoresOfLoops) {
  for (Workload w : Workloads()) {
    for (const int64_t latent : {0, 6}) {
      w.read = Read::kScores;
      w.latent = latent, w.cached = latent > 0 ? Cached::kLatent : Cached::kTokens;
      if (latent > 0 && w.queries > w.keys) continue;
      for (const Order order : kOrders) {
        Loops loops;
        for (int64_t b = 0; b < w.batch; ++b) {
          const Counted x_q = loops.Make(w.queries, w.width), x = loops.Make(w.source(), w.keys);
          if (latent > 0) loops.Multiply(x_q, loops.Make(w.width, latent));  // the new tokens' latents
          const bool first = b == 0;
          for (int64_t h = 0; h < w.heads; ++h) {
            const Counted w_q = loops.Make(w.width, w.head_width), w_k = loops.Make(w.head_width, w.source());
            const double before = loops.multiply_adds_beforehand;
            const Counted scores = loops.Chain(order, x_q, w_q, w_k, x);
            if (!first) loops.multiply_adds_beforehand = before;  // once, not once a sequence
            Loops other;
            ExpectClose(scores, other.Chain(Order::kProjected, x_q, w_q, w_k, x), w.width + w.head_width + w.source());
          }
        }
        const Plan plan{order, Order::kProjected};
        EXPECT_EQ(MultiplyAdds(plan, w), loops.multiply_adds) << Name(order);
        EXPECT_EQ(MultiplyAddsBeforehand(plan, w), loops.multiply_adds_beforehand) << Name(order);
      }
    }
  }
}

// The outputs likewise, A X W_Vᵀ W_Oᵀ, beside scores in the order that everybody uses.
TEST(Plan, CountsTheOutputsOfLoops) {
  for (const Workload& w : Workloads()) {
    for (const Order order : kOrders) {
      Loops loops;
      for (int64_t b = 0; b < w.batch; ++b) {
        for (int64_t h = 0; h < w.heads; ++h) {
          loops.Chain(Order::kProjected, loops.Make(w.queries, w.width), loops.Make(w.width, w.head_width),
                      loops.Make(w.head_width, w.width), loops.Make(w.width, w.keys));
          const Counted a = loops.Make(w.queries, w.keys), x = loops.Make(w.keys, w.width),
                        w_v = loops.Make(w.width, w.values()), w_o = loops.Make(w.values(), w.width);
          // The chain A X W_V W_O is that of the scores read from the other end.
          Counted out;
          const double before = loops.multiply_adds;
          switch (order) {
            case Order::kProjected:
              out = loops.Multiply(loops.Multiply(a, loops.Multiply(x, w_v)), w_o);
              break;
            case Order::kAbsorbed:
              out = loops.Multiply(loops.Multiply(loops.Multiply(a, x), w_v), w_o);
              break;
            case Order::kKeysAbsorbed:
              out = loops.Multiply(a, loops.Multiply(loops.Multiply(x, w_v), w_o));
              break;
            case Order::kMerged:
            case Order::kKeysMerged: {
              const Counted m_ov = loops.Multiply(w_v, w_o);
              loops.multiply_adds = before;
              out = order == Order::kMerged ? loops.Multiply(loops.Multiply(a, x), m_ov)
                                            : loops.Multiply(a, loops.Multiply(x, m_ov));
            }
          }
          Loops other;
          ExpectClose(out, other.Multiply(other.Multiply(a, other.Multiply(x, w_v)), w_o),
                      w.keys + w.width + w.values());
        }
      }
      EXPECT_EQ(MultiplyAdds({Order::kProjected, order}, w), loops.multiply_adds) << Name(order);
    }
  }
}

TEST(Plan, StepsAddUpToTheFormula) {
  for (Workload w : Workloads()) {
    for (const Cached cached : {Cached::kTokens, Cached::kKeysAndValues, Cached::kLatent}) {
      for (const Read read : {Read::kScores, Read::kOutputs}) {
        for (const bool projection : {true, false}) {
          w.cached = cached, w.latent = cached == Cached::kLatent ? 6 : 0, w.read = read, w.projection = projection;
          if (cached != Cached::kTokens && w.queries > w.keys) continue;
          for (const Order scores : kOrders) {
            for (const Order outputs : kOrders) {
              if (!CanScore(scores, w) || !CanSum(outputs, w)) continue;
              double sum = 0;
              for (const Step& step : PlanSteps({scores, outputs}, w)) sum += step.multiply_adds();
              EXPECT_EQ(sum, MultiplyAdds({scores, outputs}, w)) << Name(scores) << ", " << Name(outputs);
            }
          }
        }
      }
    }
  }
}

// Decoding one token with 128 heads from a cache, all written out: what attention must read is what tells them apart.
TEST(Plan, CountsTheBytesOfDecoding) {
  Workload w{.queries = 1, .keys = 1000, .width = 5120, .heads = 128, .head_width = 128};
  const double q = 5120 + 5120 * 16384 + 16384, attention = 16384 + 2 * 16384 * 1000 + 16384,
               o = 16384 + 16384 * 5120 + 5120;
  w.cached = Cached::kKeysAndValues;
  EXPECT_EQ(Bytes({}, w, 2), 2 * (3 * q + attention + o));

  w.cached = Cached::kLatent, w.latent = 512;
  const double latent = 5120 + 5120 * 512 + 512, up = 1000 * 512 + 512 * 16384 + 1000 * 16384;
  EXPECT_EQ(Bytes({}, w, 2), 2 * (latent + q + 2 * up + attention + o));
  // Queries carry W_K, sums W_V, and all heads read the same latents.
  const double carried = 128 * (128 + 128 * 512 + 512), shared = 128 * 512 + 2 * 1000 * 512 + 128 * 512;
  EXPECT_EQ(Bytes({Order::kAbsorbed, Order::kAbsorbed}, w, 2), 2 * (latent + q + 2 * carried + shared + o));
}

TEST(Plan, FewRowsAreAbsorbedManyAreNot) {
  Workload vit_b{.queries = 1, .keys = 197, .width = 768, .heads = 12, .head_width = 64};
  const Plan absorbed{Order::kAbsorbed, Order::kAbsorbed}, projected;
  EXPECT_EQ(CheapestPlan(vit_b), absorbed);
  vit_b.queries = 197;
  EXPECT_EQ(CheapestPlan(vit_b), projected);
  vit_b.queries = 1;
  vit_b.keys_are_linear = false;  // the outputs' chain does not ask how the weights came about
  EXPECT_EQ(CheapestPlan(vit_b), (Plan{Order::kProjected, Order::kAbsorbed}));
  vit_b.keys_are_linear = true, vit_b.cached = Cached::kKeysAndValues;
  EXPECT_EQ(CheapestPlan(vit_b), projected);
}

TEST(Plan, ChoosesAmongWhatTheCallerHas) {
  const Workload wide{.queries = 64, .keys = 64, .width = 128, .heads = 1, .head_width = 128};
  EXPECT_EQ(CheapestPlan(wide), (Plan{Order::kMerged, Order::kMerged}));
  constexpr std::array kUnmerged = {Order::kProjected, Order::kAbsorbed};
  EXPECT_EQ(CheapestPlan(wide, kUnmerged), Plan());  // equals: E = D
  Workload last = wide;
  last.projection = false;  // nothing to merge W_V with
  EXPECT_EQ(CheapestPlan(last), (Plan{Order::kMerged, Order::kProjected}));
  // More queries than keys: the keys carry.
  EXPECT_EQ(CheapestPlan({.queries = 900, .keys = 10, .width = 128, .heads = 8, .head_width = 16, .value_width = 100}),
            (Plan{Order::kKeysAbsorbed, Order::kKeysMerged}));
}

// Note 9: merging wins iff E/D > (D + N)/(2D + N), for scores as for outputs, whatever the number of heads.
TEST(Plan, MergingPaysForOneWideHeadAtMost) {
  for (const int64_t D : {1, 7, 32, 768}) {
    for (const int64_t N : {1, 5, 64, 197, 4096}) {
      for (int64_t E = 1; E <= 2 * D; E += 1 + D / 16) {
        for (const int64_t H : {1, 12}) {
          const Workload w{.queries = N, .keys = N, .width = D, .heads = H, .head_width = E};
          if (E * (2 * D + N) == D * (D + N)) continue;  // both cost the same, and the quotient may round
          constexpr std::array kSplitOrMerged = {Order::kProjected, Order::kMerged};
          const Order best = static_cast<double>(E) > MergingPaysAbove(N, D) * static_cast<double>(D)
                                 ? Order::kMerged
                                 : Order::kProjected;
          EXPECT_EQ(CheapestPlan(w, kSplitOrMerged), (Plan{best, best})) << "D " << D << " N " << N << " E " << E;
          // Two heads or more that share the width never merge.
          if (E * H <= D && H >= 2) {
            EXPECT_EQ(best, Order::kProjected);
          }
        }
      }
    }
  }
  // ViT-B would pay 6.7 times.
  const Workload vit_b{.queries = 197, .keys = 197, .width = 768, .heads = 12, .head_width = 64, .read = Read::kScores};
  EXPECT_NEAR(MultiplyAdds({Order::kMerged}, vit_b) / MultiplyAdds({}, vit_b), 6.7, 0.05);
}

// Note 10: absorbing wins iff m < NDE / (DE + N(D − E)).
TEST(Plan, AbsorbingPaysForFewRows) {
  constexpr std::array kProjectedOrAbsorbed = {Order::kProjected, Order::kAbsorbed};
  for (const int64_t D : {8, 96, 768}) {
    for (const int64_t E : {1, 4, 8, 64, 100, 1000}) {
      for (const int64_t N : {1, 10, 197, 1024}) {
        for (int64_t m = 1; m <= N; m += 1 + N / 50) {
          const Workload w{.queries = m, .keys = N, .width = D, .heads = 3, .head_width = E};
          // Where both cost the same, the quotient may round to either side.
          if (std::abs(static_cast<double>(m) / AbsorbingPaysBelow(N, D, E) - 1) < 1e-12) continue;
          const Order best =
              static_cast<double>(m) < AbsorbingPaysBelow(N, D, E) ? Order::kAbsorbed : Order::kProjected;
          EXPECT_EQ(CheapestPlan(w, kProjectedOrAbsorbed), (Plan{best, best}))
              << "D " << D << " E " << E << " N " << N << " m " << m;
        }
      }
    }
  }
  // ViT-B: up to 51 rows; 39 times fewer for the class token alone.
  EXPECT_EQ(std::floor(AbsorbingPaysBelow(197, 768, 64)), 51);
  for (const Read read : {Read::kScores, Read::kOutputs}) {
    const Workload vit_b{.queries = 1, .keys = 197, .width = 768, .heads = 12, .head_width = 64, .read = read};
    EXPECT_NEAR(MultiplyAdds({}, vit_b) / MultiplyAdds({Order::kAbsorbed, Order::kAbsorbed}, vit_b), 39, 0.5);
  }
}

// Note 11: latent attention of 512/128 absorbs iff m < 131072 N / (131072 + 768 N), at most 171 rows.
TEST(Plan, LatentAttentionAbsorbsUpTo171Rows) {
  Workload w{.keys = 1, .width = 5120, .heads = 128, .head_width = 128, .cached = Cached::kLatent, .latent = 512};
  constexpr std::array kProjectedOrAbsorbed = {Order::kProjected, Order::kAbsorbed};
  int64_t most = 0;
  for (const int64_t N : {200, 1000, 4096, 131072, 1 << 24}) {
    w.keys = N;
    for (w.queries = 1; w.queries <= 200; ++w.queries) {
      const double n = static_cast<double>(N);
      const bool absorbs = static_cast<double>(w.queries) < 131072 * n / (131072 + 768 * n);
      const Order best = absorbs ? Order::kAbsorbed : Order::kProjected;
      ASSERT_EQ(CheapestPlan(w, kProjectedOrAbsorbed), (Plan{best, best})) << "N " << N << " m " << w.queries;
      if (absorbs) most = std::max(most, w.queries);
    }
  }
  EXPECT_EQ(most, 170);
  EXPECT_NEAR(AbsorbingPaysBelow(1e9, 512, 128), 170.7, 0.1);
  EXPECT_EQ(AbsorbingPaysBelow(2000, 512, 1024), std::numeric_limits<double>::infinity());
}

// The thread's own figures: 64 G, re-associated 60 G, merged 30 G once M is made, which takes 36 G.
TEST(Plan, CountsTheThreadsExample) {
  const Workload w{.queries = 2000, .keys = 2000, .width = 3000, .head_width = 4000, .read = Read::kScores};
  EXPECT_EQ(MultiplyAdds({Order::kProjected}, w), 64e9);
  EXPECT_EQ(MultiplyAdds({Order::kAbsorbed}, w), 60e9);
  EXPECT_EQ(MultiplyAdds({Order::kMerged}, w), 30e9);
  EXPECT_EQ(MultiplyAddsBeforehand({Order::kMerged}, w), 36e9);
  EXPECT_EQ(CheapestPlan(w).scores, Order::kMerged);
}

TEST(Plan, BatchChangesNoChoice) {
  for (Workload w : Workloads()) {
    w.batch = 1;
    const Plan one = CheapestPlan(w);
    w.batch = 64;
    EXPECT_EQ(CheapestPlan(w), one);
  }
}

// The choice is the least of all that are possible.
TEST(Plan, NothingIsCheaperThanTheCheapest) {
  for (Workload w : Workloads()) {
    for (const bool linear : {true, false}) {
      w.keys_are_linear = linear;
      const double least = MultiplyAdds(CheapestPlan(w), w);
      for (const Order scores : kOrders) {
        for (const Order outputs : kOrders) {
          if (!CanScore(scores, w) || !CanSum(outputs, w)) continue;
          EXPECT_GE(MultiplyAdds({scores, outputs}, w), least);
        }
      }
    }
  }
}

TEST(Plan, RefusesWhatIsNotPossible) {
  Workload w{.queries = 4, .keys = 4, .width = 8, .heads = 2, .head_width = 4};
  EXPECT_NO_THROW(PlanSteps({}, w));
  w.keys_are_linear = false;
  EXPECT_THROW(PlanSteps({Order::kMerged, Order::kProjected}, w), Error);
  EXPECT_NO_THROW(PlanSteps({Order::kProjected, Order::kMerged}, w));
  w.projection = false;
  EXPECT_THROW(PlanSteps({Order::kProjected, Order::kMerged}, w), Error);
  w.cached = Cached::kLatent;
  EXPECT_THROW(PlanSteps({}, w), Error);
  w.latent = 3;
  EXPECT_NO_THROW(PlanSteps({}, w));
  w.queries = 5;
  EXPECT_THROW(PlanSteps({}, w), Error);
  w.queries = 0;
  EXPECT_THROW(PlanSteps({}, w), Error);
}

// Products of four sizes, each as large as the command line takes it, are beyond 64 bits.
TEST(Plan, CountsHugeShapes) {
  constexpr int64_t k = int64_t{1} << 24;
  const Workload w{.queries = k, .keys = k, .width = k, .heads = k, .head_width = k, .batch = k};
  const double k3 = std::ldexp(1.0, 72), k4 = std::ldexp(1.0, 96);
  for (const Order scores : kOrders) {
    for (const Order outputs : kOrders) {
      const Plan plan{scores, outputs};
      double multiply_adds = 0, elements = 0;
      for (const Step& step : PlanSteps(plan, w)) {
        EXPECT_GE(step.elements, k3) << step.what;
        multiply_adds += step.multiply_adds(), elements += step.elements;
      }
      EXPECT_DOUBLE_EQ(multiply_adds, MultiplyAdds(plan, w));
      EXPECT_EQ(Bytes(plan, w, 8), 8 * elements);
    }
  }
  const auto elements_of = [&](Order order, Step::Kind kind) {
    for (const Step& step : PlanSteps({order, order}, w)) {
      if (step.kind == kind) return step.elements;
    }
    return 0.0;
  };
  EXPECT_EQ(elements_of(Order::kProjected, Step::Kind::kAttention), 4 * k4);
  EXPECT_EQ(elements_of(Order::kAbsorbed, Step::Kind::kAttention), 2 * k4 + 2 * k3);
  EXPECT_EQ(elements_of(Order::kKeysMerged, Step::Kind::kHeads), k4 + k3);
}

}  // namespace
}  // namespace qkv::attention
