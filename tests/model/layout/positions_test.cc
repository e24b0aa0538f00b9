// Interpolated and computed positions. The families' own numbers are in the goldens of another size.
#include "qkv/model/layout/positions.h"

#include <gtest/gtest.h>

#include "tests/support/sampler.h"

namespace qkv::model {
namespace {

class Interpolated : public testing::TestWithParam<Interpolation> {};
INSTANTIATE_TEST_SUITE_P(Kinds, Interpolated,
                         testing::Values(Interpolation::kBicubic, Interpolation::kBicubicAntialias,
                                         Interpolation::kBilinear, Interpolation::kBilinearAligned));

TEST_P(Interpolated, SameGridIsUnchanged) {
  const auto from = Sampler(1).Normal<double>({12, 5});
  Tensor<double> to({12, 5});
  ResampleGrid<double>(from, 3, 4, GetParam(), 3, 4, to);
  for (int64_t i = 0; i < from.size(); ++i) EXPECT_NEAR(to[i], from[i], 1e-15);
}

TEST_P(Interpolated, ConstantStaysConstant) {
  Tensor<double> from({12, 2});
  for (double& x : from.span()) x = 3;
  for (const auto& [height, width] : {std::pair(1, 1), std::pair(2, 9), std::pair(7, 3), std::pair(30, 40)}) {
    Tensor<double> to({height * width, 2});
    ResampleGrid<double>(from, 3, 4, GetParam(), height, width, to);
    for (const double x : to.span()) EXPECT_NEAR(x, 3, 1e-14);
  }
}

TEST(Positions, RefusedWhereTheLibraryHasNone) {
  Tensor<float> from({4, 2}), to({9, 2});
  EXPECT_THROW(ResampleGrid<float>(from, 2, 2, Interpolation::kNone, 3, 3, to), Error);
}

TEST(SinCosGrid, StartsAtZeroAndCountsColumnsFirst) {
  Tensor<double> positions({6, 8});
  SinCosGrid<double>(2, 3, positions);
  const double origin[] = {0, 0, 1, 1, 0, 0, 1, 1};
  for (int i = 0; i < 8; ++i) EXPECT_EQ(positions[i], origin[i]);
  EXPECT_NEAR(*positions.view().at(1, 0), std::sin(1.0), 1e-15);  // second column: x = 1
  EXPECT_NEAR(*positions.view().at(3, 4), std::sin(1.0), 1e-15);  // second row: y = 1
  EXPECT_NEAR(*positions.view().at(5, 1), std::sin(2e-4), 1e-15);
}

}  // namespace
}  // namespace qkv::model
