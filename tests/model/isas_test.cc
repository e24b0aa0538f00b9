// A whole model in every precision under every instruction set, AMX among them even where the machine has none.
#include <gtest/gtest.h>

#include <cmath>

#include "qkv/model/model.h"
#include "tests/simd/software_amx.h"
#include "tests/support/files.h"
#include "tests/support/sampler.h"

namespace qkv::model {
namespace {

class ModelIsas : private simd::SoftwareAmx, public IsaTest {};
INSTANTIATE_TEST_SUITE_P(Isas, ModelIsas, testing::ValuesIn(simd::ParametersWithAmx()), IsaTestName);

Tensor<float> Logits(simd::Precision precision, const Tensor<float>& pixels) {
  return Model::Load(SourceFolder() / "models/cifar10", {.precision = precision}).Logits(pixels);
}

double Cosine(const float* a, const float* b, int64_t size) {
  double ab = 0, aa = 0, bb = 0;
  for (int64_t i = 0; i < size; ++i) ab += a[i] * b[i], aa += a[i] * a[i], bb += b[i] * b[i];
  return ab / std::sqrt(aa * bb);
}

// bfloat16 rounds by 2⁻⁹, and the angle that this turns the logits by grows with the root of the number of roundings
// one behind the other, some 30 here: a cosine of 1 − 30 · 2⁻¹⁸ / 2. int8's floor is what it may cost any model.
TEST_P(ModelIsas, LowerPrecisionsComeNearFloat) {
  const Tensor<float> pixels = Sampler(7).Normal<float>({3, 3, 32, 32});
  const Tensor<float> exact = Logits(simd::Precision::kFloat32, pixels);
  for (const auto& [precision, least] : {std::pair(simd::Precision::kBfloat16, 0.9999),
                                         {simd::Precision::kInt8, 0.999}}) {
    const Tensor<float> logits = Logits(precision, pixels);
    ASSERT_EQ(logits.shape(), exact.shape());
    for (int64_t b = 0; b < exact.dim(0); ++b) {
      EXPECT_GE(Cosine(logits.view().row(b), exact.view().row(b), exact.dim(1)), least)
          << simd::Describe(precision).kernel << ", image " << b;
    }
  }
}

}  // namespace
}  // namespace qkv::model
