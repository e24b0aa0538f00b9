// Spectra of circuits from their factors.
#include "qkv/algebra/spectrum.h"

#include "tests/algebra/support.h"

namespace qkv::algebra {
namespace {

QKV_HEAD_TEST_SUITE(SpectrumTest);

// The two circuits of a head, as factors A, B of AᵀB.
std::vector<std::pair<View<const double>, View<const double>>> Circuits(const Case& c) {
  return {{c.pair.query.weight.view(), c.pair.key.weight.view()}, {Transpose(c.output), c.value.weight.view()}};
}

TYPED_TEST(SpectrumTest, SingularValuesFromTheFactorsAreThoseOfTheProduct) {
  for (const Case& c : this->Cases()) {
    SCOPED_TRACE(c.name);
    for (const auto& circuit : Circuits(c)) {
      const Tensor<double> a = Copy(circuit.first), b = Copy(circuit.second), M = Multiply(Transposed(a), b);
      const auto s = SingularValues(circuit.first, circuit.second);
      const auto dense = SingularValues(M);
      ASSERT_EQ(std::ssize(s), std::min(c.E(), c.D()));
      const double tolerance = StepTolerance(4, c.D(), Norm(a) * Norm(b));
      double squares = 0;
      for (size_t i = 0; i < dense.size(); ++i) {
        // By Weyl's inequality each singular value moves by no more than the error's norm.
        EXPECT_NEAR(i < s.size() ? s[i] : 0.0, dense[i], tolerance);
        if (i < s.size()) squares += s[i] * s[i];
      }
      EXPECT_NEAR(std::sqrt(squares), Norm(M), tolerance);
    }
    const auto s = SingularValues(c.pair.query.weight, c.pair.key.weight);
    EXPECT_EQ(NumericalRank(s, c.D()), c.rank);
    EXPECT_LE(StableRank(s), static_cast<double>(c.rank) * (1 + 1e-5));
    EXPECT_GE(StableRank(s), 1);
    EXPECT_LE(EffectiveRank(s), static_cast<double>(c.rank) * (1 + 1e-3));
    EXPECT_GE(EffectiveRank(s), StableRank(s) * (1 - 1e-5));
  }
}

// The nonzero eigenvalues of AᵀB have the power sums tr((AᵀB)^p), p = 1, 2, 3.
TYPED_TEST(SpectrumTest, EigenvaluesFromTheFactorsHaveThePowerSumsOfTheProduct) {
  for (const Case& c : this->Cases()) {
    SCOPED_TRACE(c.name);
    for (const auto& circuit : Circuits(c)) {
      const auto values = Eigenvalues(circuit.first, circuit.second);
      ASSERT_EQ(std::ssize(values), std::min(c.E(), c.D()));
      for (size_t i = 1; i < values.size(); ++i) EXPECT_LE(std::abs(values[i]), std::abs(values[i - 1]));
      const Tensor<double> a = Copy(circuit.first), b = Copy(circuit.second), M = Multiply(Transposed(a), b);
      Tensor<double> power = M.Clone();
      for (int p = 1; p <= 3; ++p) {
        double trace = 0;
        std::complex<double> sum = 0;
        for (int64_t d = 0; d < c.D(); ++d) trace += *power.view().at(d, d);
        for (const auto& z : values) sum += std::pow(std::complex<double>(z), p);
        const double tolerance = p * StepTolerance(3, c.D() * c.E(), std::pow(Norm(a) * Norm(b), p));
        EXPECT_NEAR(sum.real(), trace, tolerance);
        EXPECT_NEAR(sum.imag(), 0, tolerance);
        power = Multiply(power, M);
      }
    }
  }
}

TEST(Spectrum, EigenvaluesOfAKnownMatrix) {
  Tensor<double> m({3, 3});  // a turn by 90° doubled, and −1
  m[1] = -2, m[3] = 2, m[8] = -1;
  const auto values = Eigenvalues(m);
  EXPECT_NEAR(std::abs(values[0] - std::complex<double>(0, values[0].imag() > 0 ? 2 : -2)), 0, 1e-14);
  EXPECT_NEAR(std::abs(values[0] + values[1]), 0, 1e-14);
  EXPECT_NEAR(std::abs(values[2] + 1.0), 0, 1e-14);
  EXPECT_NEAR(EigenvalueSign(values), -1.0 / 5, 1e-14);
}

TEST(Spectrum, TheSignOfSharedAndOfOppositeProjections) {
  const auto w = Sampler(4).Normal<double>({4, 9});
  Tensor<double> opposite = w.Clone();
  for (double& x : opposite.span()) x = -x;
  EXPECT_NEAR(EigenvalueSign(Eigenvalues(w, w)), 1, 1e-12);
  EXPECT_NEAR(EigenvalueSign(Eigenvalues(w, opposite)), -1, 1e-12);
  EXPECT_EQ(EigenvalueSign({}), 0);
}

TEST(Spectrum, RanksOfKnownSpectra) {
  const std::vector<double> equal{3, 3, 3, 3}, one{5, 0, 0}, none{0, 0}, two{2, 1, 1e-20};
  EXPECT_NEAR(EffectiveRank(equal), 4, 1e-14);
  EXPECT_NEAR(StableRank(equal), 4, 1e-14);
  EXPECT_NEAR(EffectiveRank(one), 1, 1e-14);
  EXPECT_NEAR(StableRank(one), 1, 1e-14);
  EXPECT_EQ(EffectiveRank(none), 0);
  EXPECT_EQ(StableRank(none), 0);
  EXPECT_EQ(NumericalRank(none, 2), 0);
  EXPECT_NEAR(StableRank(two), 1.25, 1e-14);
  EXPECT_NEAR(EffectiveRank(two), std::exp(std::log(3.0) - 2.0 / 3 * std::log(2.0)), 1e-14);
  EXPECT_EQ(NumericalRank(two, 3), 2);
  EXPECT_NEAR(TailNorm(equal, 2), std::sqrt(18.0), 1e-14);
  EXPECT_NEAR(TailNorm(equal, 0), 6, 1e-14);
  EXPECT_EQ(TailNorm(equal, 9), 0);
  EXPECT_THROW(TailNorm(equal, -1), Error);
}

TEST(Spectrum, WrongShapesAreRefused) {
  const Tensor<double> a({4, 6}), b({3, 6}), c({4, 5});
  EXPECT_THROW(SingularValues(a, b), Error);
  EXPECT_THROW(Eigenvalues(a, c), Error);
  EXPECT_THROW(Eigenvalues(a), Error);
}

}  // namespace
}  // namespace qkv::algebra
