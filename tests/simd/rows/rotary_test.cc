#include "qkv/simd/rows/rotary.h"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <vector>

#include "tests/support/isas.h"
#include "tests/support/sampler.h"
#include "tests/support/tolerance.h"

namespace qkv::simd {
namespace {

class RotaryTest : public IsaTest {};
QKV_FOR_ALL_ISAS(RotaryTest);

constexpr int64_t kRows = 3, kGap = 5;  // of elements between rows, which are nobody's
constexpr double kUntouched = -77;

// The angle by which pair i of a row is turned.
double Angle(int64_t row, int64_t pair) { return 0.7 * static_cast<double>(row + 1) / static_cast<double>(pair + 1); }

template <typename T>
std::vector<T> MakeAngleTable(int64_t E) {
  std::vector<T> table;
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t e = 0; e < E; ++e) table.push_back(static_cast<T>(std::cos(Angle(row, e / 2))));
    for (int64_t e = 0; e < E; ++e) {
      table.push_back(static_cast<T>((e % 2 == 0 ? -1 : 1) * std::sin(Angle(row, e / 2))));
    }
  }
  return table;
}

// Each number is a sum of two products of rounded factors: four roundings of either.
template <typename T>
void CheckRotations(int64_t E, int64_t heads, bool back) {
  const int64_t width = heads * E, stride = width + kGap;
  const auto x = Cast<T>(Sampler(3).Normal<double>({kRows, stride}));
  const auto table = MakeAngleTable<T>(E);
  Tensor<T> y({kRows, stride});
  std::fill_n(y.data(), y.size(), static_cast<T>(kUntouched));
  RotatePairs<T>({x.data(), stride, table.data(), kRows, heads, E, y.data(), stride}, back);
  for (int64_t row = 0; row < kRows; ++row) {
    const T *from = x.view().row(row), *to = y.view().row(row);
    for (int64_t i = 0; i < width; i += 2) {
      const std::complex<double> pair(static_cast<double>(from[i]), static_cast<double>(from[i + 1]));
      const double angle = Angle(row, i % E / 2);
      const std::complex<double> turned = pair * std::polar(1.0, back ? -angle : angle);
      const double tolerance = 8 * UnitRoundoff<T>() * std::abs(pair);
      ASSERT_NEAR(static_cast<double>(to[i]), turned.real(), tolerance) << E << " " << heads << " at " << i;
      ASSERT_NEAR(static_cast<double>(to[i + 1]), turned.imag(), tolerance) << E << " " << heads << " at " << i;
    }
    for (int64_t i = width; i < stride; ++i) ASSERT_EQ(to[i], static_cast<T>(kUntouched)) << "wrote past the end";
  }
  auto in_place = x.Clone();
  RotatePairs<T>({in_place.data(), stride, table.data(), kRows, heads, E, in_place.data(), stride}, back);
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t i = 0; i < width; ++i) ASSERT_EQ(*in_place.view().at(row, i), *y.view().at(row, i)) << "in place";
  }
}

TEST_P(RotaryTest, TurnsPairsAsComplexNumbers) {
  for (int64_t E = 2; E <= 2 * 16 + 2; E += 2) {  // past two of the widest vectors
    for (const int64_t heads : {1, 3}) {
      for (const bool back : {false, true}) {
        CheckRotations<float>(E, heads, back);
        CheckRotations<double>(E, heads, back);
      }
    }
  }
}

}  // namespace
}  // namespace qkv::simd
