// The directions that a head compares.
#include "qkv/algebra/directions.h"

#include "qkv/algebra/spectrum.h"
#include "tests/algebra/support.h"

namespace qkv::algebra {
namespace {

QKV_HEAD_TEST_SUITE(DirectionsTest);

// Σ σ left rightᵀ.
Tensor<double> Product(const Directions& d) {
  Tensor<double> left = d.left.Clone();
  for (int64_t i = 0; i < left.size(); ++i) left[i] *= d.singular_values[static_cast<size_t>(i / left.dim(1))];
  return Multiply(Transposed(left), d.right);
}

TYPED_TEST(DirectionsTest, MakeTheMatrixAndAreOrthonormal) {
  for (const Case& c : this->Cases()) {
    SCOPED_TRACE(c.name);
    const Tensor<double>&query = c.pair.query.weight, &key = c.pair.key.weight;
    const Directions directions = FindDirections(query, key);
    const double tolerance = StepTolerance(8, c.D(), Norm(query) * Norm(key));
    EXPECT_LE(MaxDifference(Product(directions), Multiply(Transposed(query), key)), tolerance);
    const auto s = SingularValues(query, key);
    ASSERT_EQ(directions.singular_values.size(), s.size());
    for (size_t i = 0; i < s.size(); ++i) EXPECT_NEAR(directions.singular_values[i], s[i], tolerance);
    for (const Tensor<double>* side : {&directions.left, &directions.right}) {
      const Tensor<double> gram = Multiply(*side, Transposed(*side));
      for (int64_t i = 0; i < gram.dim(0); ++i) {
        for (int64_t j = 0; j < gram.dim(1); ++j) {
          EXPECT_NEAR(*gram.view().at(i, j), i == j, StepTolerance(8, c.D(), 2));
        }
      }
    }
    // Random heads have distinct values, but for those that are zero.
    if (c.rank < std::min(c.E(), c.D())) {
      EXPECT_EQ(directions.subspaces.back(), c.rank);
    }
  }
}

TEST(Directions, EqualValuesAreOneSubspace) {
  // Two rotations of the axes, with the values 3, 2, 2, 0 between them.
  const Case c = RandomCase({4, 4, 4}, 5);
  const Directions axes = FindDirections(c.pair.query.weight, c.pair.key.weight);
  Tensor<double> scaled = axes.left.Clone();
  const double values[] = {3, 2, 2, 0};
  for (int64_t i = 0; i < scaled.size(); ++i) scaled[i] *= values[i / 4];
  EXPECT_EQ(FindDirections(scaled, axes.right).subspaces, (std::vector<int64_t>{0, 1, 3}));
  // Weights of float: a difference of their rounding does not count.
  for (int64_t j = 0; j < 4; ++j) scaled[8 + j] *= 1 + 1e-8;
  EXPECT_EQ(FindDirections(scaled, axes.right).subspaces, (std::vector<int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(FindDirections(scaled, axes.right, 0x1p-23).subspaces, (std::vector<int64_t>{0, 1, 3}));
}

}  // namespace
}  // namespace qkv::algebra
