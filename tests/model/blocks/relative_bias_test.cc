// Biases by relative position: expanded against the indices of the definition, resampled where the result is known.
// The goldens compare both with the original libraries.
#include "qkv/model/blocks/relative_bias.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/errors.h"
#include "tests/support/sampler.h"

namespace qkv::model {
namespace {

int64_t Rows(int64_t height, int64_t width) { return (2 * height - 1) * (2 * width - 1) + 3; }

// Row of the stored table for a query and a key, tokens of a grid (Bao et al. 2022, as timm and transformers store it).
int64_t StoredRow(int64_t query, int64_t key, int64_t height, int64_t width) {
  const int64_t R = Rows(height, width);
  if (query == 0) return key == 0 ? R - 1 : R - 3;
  if (key == 0) return R - 2;
  const int64_t i = query - 1, j = key - 1;
  return (i / width - j / width + height - 1) * (2 * width - 1) + i % width - j % width + width - 1;
}

TEST(RelativeBias, ExpandsToEveryPairOfTokens) {
  constexpr int64_t kHeads = 3;
  for (const auto& [height, width] : {std::pair<int64_t, int64_t>{1, 1}, {1, 4}, {3, 1}, {2, 5}, {4, 3}, {17, 9}}) {
    const int64_t N = 1 + height * width;
    const Tensor<float> stored = Sampler(5).Normal<float>({Rows(height, width), kHeads});
    Tensor<float> table({kHeads, Rows(height, width)});
    AddRelativeBiases<float>(stored, table);
    for (const int64_t rows : {int64_t{1}, N / 2 + 1, N}) {
      Tensor<float> room({1, kHeads, N, N});
      const View<float> biases = room.view().slice(2, 0, rows);
      ExpandRelativeBiases<float>(table, height, width, biases);
      for (int64_t h = 0; h < kHeads; ++h) {
        for (int64_t i = 0; i < rows; ++i) {
          for (int64_t j = 0; j < N; ++j) {
            ASSERT_EQ(*biases.at(0, h, i, j), stored.view().row(StoredRow(i, j, height, width))[h])
                << height << "x" << width << " " << i << " " << j;
          }
        }
      }
      if (rows < N) {
        EXPECT_EQ(*room.view().at(0, 0, rows, 0), 0);  // nothing is written behind them
      }
    }
  }
}

TEST(RelativeBias, TablesOfBlockAndModelAddUp) {
  const Tensor<float> own = Sampler(1).Normal<float>({Rows(2, 3), 2}),
                      shared = Sampler(2).Normal<float>({Rows(2, 3), 2});
  Tensor<float> sum({2, Rows(2, 3)}), once({2, Rows(2, 3)});
  AddRelativeBiases<float>(own, sum), AddRelativeBiases<float>(own, once);
  AddRelativeBiases<float>(shared, sum);
  EXPECT_EQ(sum[0], once[0] + shared.view().row(Rows(2, 3) - 4)[0]);
  EXPECT_EQ(sum[sum.size() - 1], own[own.size() - 1] + shared[shared.size() - 1]);
}

TEST(RelativeBias, BilinearTablesOfTheSameSquareGridAreEqual) {
  const Tensor<float> tables = Sampler(3).Normal<float>({2, 3, Rows(4, 4)});
  Tensor<float> same(tables.shape());
  ResampleRelativeBiases<float>(tables, 4, 4, BiasInterpolation::kBilinear, 4, 4, same);
  EXPECT_TRUE(std::ranges::equal(same.span(), tables.span()));
}

// The bias of no offset stays, values far beyond the old offsets are those of the greatest, and the class token keeps
// its own.
TEST(RelativeBias, GeometricTablesKeepCentreAndEnds) {
  for (const auto& [to_height, to_width] : {std::pair<int64_t, int64_t>{9, 5}, {1, 2}, {3, 3}, {4, 30}}) {
    const Tensor<double> table = Sampler(4).Normal<double>({1, 1, Rows(3, 4)});
    Tensor<double> resampled({1, 1, Rows(to_height, to_width)});
    ResampleRelativeBiases<double>(table, 3, 4, BiasInterpolation::kGeometric, to_height, to_width, resampled);
    const int64_t centre = 2 * 7 + 3, to_centre = (to_height - 1) * (2 * to_width - 1) + to_width - 1;
    EXPECT_NEAR(resampled[to_centre], table[centre], 1e-12);
    for (int64_t i = 1; i <= 3; ++i) EXPECT_EQ(resampled[resampled.size() - i], table[table.size() - i]);
    const auto [low, high] = std::ranges::minmax(table.span());
    for (const double value : resampled.span()) EXPECT_TRUE(value >= low && value <= high);
  }
  Tensor<double> wide({1, 1, Rows(3, 60)});
  const Tensor<double> table = Sampler(4).Normal<double>({1, 1, Rows(3, 2)});
  ResampleRelativeBiases<double>(table, 3, 2, BiasInterpolation::kGeometric, 3, 60, wide);
  const int64_t row = 2 * 119;  // of vertical offset 0
  EXPECT_EQ(wide[row], wide[row + 50]);
  EXPECT_NEAR(wide[row], table[2 * 3], 1e-12);
}

TEST(RelativeBias, WrongShapesAreErrors) {
  Tensor<float> table({2, Rows(2, 2)}), out({1, 2, 5, 5});
  ExpandRelativeBiases<float>(table, 2, 2, out);
  EXPECT_THROW(ExpandRelativeBiases<float>(table, 2, 3, out), Error);
  EXPECT_THROW(ExpandRelativeBiases<float>(table, 2, 2, Tensor<float>({1, 2, 6, 5}).view()), Error);
  EXPECT_THROW(AddRelativeBiases<float>(table.view(), out.view()[0][0]), Error);
  EXPECT_THROW(ResampleRelativeBiases<float>(table.view().reshape({1, 2, Rows(2, 2)}), 2, 2,
                                             BiasInterpolation::kBilinear, 3, 3, Tensor<float>({1, 2, 5}).view()),
               Error);
}

}  // namespace
}  // namespace qkv::model
