// C17 and C18: several heads, and all tokens at once.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "qkv/attention/attention.h"
#include "qkv/core/parallel.h"
#include "qkv/lab/claims/replay.h"
#include "qkv/report/text.h"
#include "qkv/simd/gemm/matmul.h"

namespace qkv::lab::internal {
namespace {

// For each two heads of a block: mean over images and queries of the total variation ½ Σ_j |A_ij − A'_ij|.
Matrix HeadDistances(const Bench& bench, int64_t block) {
  const Tensor<float>& pixels = bench.pixels();
  const int64_t N = bench.model().TokensFor(pixels.dim(2), pixels.dim(3)), H = bench.heads();
  Matrix distances({H, H});
  const auto add = [&](int64_t, View<const float> weights) {  // [1, H, rows, N]
    for (int64_t a = 0; a < H; ++a) {
      for (int64_t b = 0; b < a; ++b) {
        const float *one = weights.at(0, a), *other = weights.at(0, b);
        double sum = 0;
        for (int64_t i = 0; i < weights.dim(2) * N; ++i) {
          sum += std::abs(static_cast<double>(one[i]) - static_cast<double>(other[i]));
        }
        distances[a * H + b] += sum / 2 / static_cast<double>(N * pixels.dim(0));
        distances[b * H + a] = distances[a * H + b];
      }
    }
  };
  model::Workspace<float> workspace;
  model::Outputs<float> outputs;
  outputs.attention.push_back({block, {.row_end = N, .visit = add}});
  for (int64_t image = 0; image < pixels.dim(0); ++image) {
    bench.model().Forward(pixels.view().slice(0, image, image + 1), workspace, outputs);
  }
  return distances;
}

struct Operands {
  int64_t N, D, H, E;
  Tensor<float> x, w;  // [N, D], [D, 3·H·E]

  Operands(int64_t N_, int64_t D_, int64_t H_, uint64_t seed)
      : N(N_), D(D_), H(H_), E(D_ / H_), x({N, D}), w({D, 3 * D}) {
    Rng rng(seed);
    for (float& v : x.span()) v = static_cast<float>(rng.Normal());
    for (float& v : w.span()) v = static_cast<float>(rng.Normal() / std::sqrt(static_cast<double>(D)));
  }
};

// Queries, keys or values of [N, 3·H·E] as [1, H, N, E].
View<const float> Part(const Tensor<float>& qkv, const Operands& op, int64_t part) {
  const int64_t stride = 3 * op.D;
  return {qkv.data() + part * op.D, {1, op.H, op.N, op.E}, {0, op.E, stride, 1}};
}

double MaxAbsDifference(const Tensor<float>& a, const Tensor<float>& b) {
  double greatest = 0;
  for (int64_t i = 0; i < a.size(); ++i) greatest = std::max(greatest, std::abs(double(a[i]) - double(b[i])));
  return greatest;
}

}  // namespace

Result ReplayHeads(const Bench& bench) {
  report::Table table{"How differently the heads of a block look (total variation, 0 alike … 1 disjoint)",
                      {{"block"}, {"least alike pair"}, {"mean"}, {"most alike pair"}},
                      {}};
  double least = 1, mean_of_all = 0, most = -1;
  Matrix shown;
  int64_t shown_block = 0;
  const int64_t H = bench.heads();
  for (int64_t block = 0; block < bench.depth() && H > 1; ++block) {
    Matrix distances = HeadDistances(bench, block);
    double low = 1, high = 0, mean = 0;
    for (int64_t a = 0; a < H; ++a) {
      for (int64_t b = 0; b < a; ++b) {
        low = std::min(low, distances[a * H + b]), high = std::max(high, distances[a * H + b]);
        mean += distances[a * H + b] / (static_cast<double>(H * (H - 1)) / 2);
      }
    }
    table.rows.push_back({fmt::format("{}", block), report::Number(high), report::Number(mean), report::Number(low)});
    least = std::min(least, low), mean_of_all += mean / static_cast<double>(bench.depth());
    if (mean > most) most = mean, shown = std::move(distances), shown_block = block;
  }

  const Operands op(197, 768, 12, bench.seed());
  Tensor<float> qkv({op.N, 3 * op.D}), fused({op.N, op.D}), single({op.N, op.D});
  Arena arena;
  simd::MatMul<float>(op.x, op.w, qkv.view());
  const View<float> fused_heads(fused.data(), {1, op.H, op.N, op.E}, {0, op.E, op.D, 1});
  const View<float> single_heads(single.data(), {1, op.H, op.N, op.E}, {0, op.E, op.D, 1});
  const View<const float> q = Part(qkv, op, 0), k = Part(qkv, op, 1), v = Part(qkv, op, 2);
  const double together = BestTime([&] { attention::Attention<float>(q, k, v, {}, fused_heads, arena); });
  const double apart = BestTime([&] {
    for (int64_t h = 0; h < op.H; ++h) {
      attention::Attention<float>(q.slice(1, h, h + 1), k.slice(1, h, h + 1), v.slice(1, h, h + 1), {},
                                  single_heads.slice(1, h, h + 1), arena);
    }
  });
  Result result{
      .title = "Several heads",
      .claim = "Several heads find different patterns, and are computed in parallel.",
      .run = fmt::format(
          "attention of all heads of {} on {} {}; 12 heads of 64 on 197 tokens in one call and head by head",
          bench.name(), bench.pixels().dim(0), bench.drawn() ? "drawn digits" : "images"),
      .reason =
          "Trained heads of one block look at different tokens. They do not depend on each other, so one call computes "
          "them together, with the numbers that a call a head gives.",
      .checks = {{"fused against head by head, max difference", Relation::kAtMost, 0, MaxAbsDifference(fused, single),
                  Rounding<float>(2, op.N, 4)},
                 {"time, 12 heads in one call", Relation::kObserved, kNan, together, 0, "s"},
                 {"time, head by head", Relation::kObserved, kNan, apart, 0, "s"},
                 {"head by head / one call", Relation::kObserved, kNan, apart / together, 0, "×"}},
      .tables = {},
  };
  if (H > 1) {
    result.checks.push_back({"total variation between heads, mean", Relation::kObserved, kNan, mean_of_all});
    result.checks.push_back({"total variation between heads, most alike pair", Relation::kObserved, kNan, least});
    std::vector<std::string> names;
    for (int64_t h = 0; h < H; ++h) names.push_back(fmt::format("{}", h));
    result.tables.push_back(std::move(table));
    result.pictures.push_back(
        {report::Heatmap{.heading = {fmt::format("Distance between the heads of block {}", shown_block)},
                         .row_name = "head",
                         .column_name = "head",
                         .rows = names,
                         .columns = names,
                         .row_count = H,
                         .column_count = H,
                         .values = {shown.span().begin(), shown.span().end()},
                         .low = 0,
                         .high = 1,
                         .value_name = "total variation",
                         .numbers = H <= 8,
                         .cell = H <= 8 ? 52.0 : 0.0},
         "The block whose heads differ most."});
  }
  return result;
}

Result ReplayAllAtOnce(const Bench& bench) {
  const Operands op(bench.setup().quick ? 64 : 197, bench.setup().quick ? 192 : 768, bench.setup().quick ? 3 : 12,
                    bench.seed());
  Tensor<float> qkv({op.N, 3 * op.D}), loop_qkv({op.N, 3 * op.D}), all({op.N, op.D}), one({op.N, op.D});
  Arena arena;
  const auto out = [&](Tensor<float>& to) { return View<float>(to.data(), {1, op.H, op.N, op.E}, {0, op.E, op.D, 1}); };
  const auto at_once = [&] {
    simd::MatMul<float>(op.x, op.w, qkv.view());
    attention::Attention<float>(Part(qkv, op, 0), Part(qkv, op, 1), Part(qkv, op, 2), {}, out(all), arena);
  };
  const auto token_by_token = [&] {
    for (int64_t i = 0; i < op.N; ++i) {
      simd::MatMul<float>(op.x.view().slice(0, i, i + 1), op.w, loop_qkv.view().slice(0, i, i + 1));
    }
    for (int64_t i = 0; i < op.N; ++i) {
      attention::Attention<float>(Part(loop_qkv, op, 0).slice(2, i, i + 1), Part(loop_qkv, op, 1),
                                  Part(loop_qkv, op, 2), {}, out(one).slice(2, i, i + 1), arena);
    }
  };
  const double together = BestTime(at_once, 5), apart = BestTime(token_by_token, 2);
  report::BarChart bars{.heading = {"All tokens at once", "Times of one layer's projections and attention"},
                        .value_name = fmt::format("seconds, {} tokens of {}, {} heads", op.N, op.D, op.H),
                        .groups = {{"matrix products", {together}, {report::Seconds(together)}},
                                   {"token by token", {apart}, {report::Seconds(apart)}}}};
  return {
      .title = "All tokens at once",
      .claim = "All tokens are computed at once by matrix products, without recurrence.",
      .run =
          fmt::format("projections and attention of {} tokens of width {} with {} heads, by matrix products and by a "
                      "loop over tokens, {} threads",
                      op.N, op.D, op.H, NumThreads()),
      .reason =
          "No token waits for another's result, so the loop can be turned into matrix products: the same "
          "operations, in an order in which weights and keys are read once for many tokens and not once for each.",
      .checks = {{"at once against token by token, max difference", Relation::kAtMost, 0, MaxAbsDifference(all, one),
                  Rounding<float>(4, op.D + op.N, 4)},
                 {"time, at once", Relation::kObserved, kNan, together, 0, "s"},
                 {"time, token by token", Relation::kObserved, kNan, apart, 0, "s"},
                 {"token by token / at once", Relation::kObserved, kNan, apart / together, 0, "×"}},
      .pictures = {{bars, ""}},
  };
}

}  // namespace qkv::lab::internal
