// A whole model in every precision under every instruction set, AMX among them even where the machine has none.
#include <gtest/gtest.h>

#include <utility>

#include "qkv/model/families/describe.h"
#include "qkv/model/model.h"
#include "tests/simd/software_amx.h"
#include "tests/support/difference.h"
#include "tests/support/files.h"
#include "tests/support/sampler.h"

namespace qkv::model {
namespace {

class ModelIsas : private simd::SoftwareAmx, public IsaTest {};
INSTANTIATE_TEST_SUITE_P(Isas, ModelIsas, testing::ValuesIn(simd::ParametersWithAmx()), IsaTestName);

Tensor<float> Logits(simd::Precision precision, const Tensor<float>& pixels) {
  return Model::Load(SourceFolder() / "models/cifar10", {.precision = precision}).Logits(pixels);
}

// What is rounded to bfloat16 is off by 2⁻⁹ of itself, and both factors of some 30 products one behind the other are:
// the logits turn by the root of 60 · 2⁻¹⁸, a cosine of 0.9999. Noise has other logits than photos, and three images
// are few, so twice that is allowed. int8 has the floor that its mean over a test split must keep (reference_test.cc).
TEST_P(ModelIsas, LowerPrecisionsComeNearFloat) {
  const Tensor<float> pixels = Sampler(7).Normal<float>({3, 3, 32, 32});
  const Tensor<float> exact = Logits(simd::Precision::kFloat32, pixels);
  for (const auto& [precision, least] :
       {std::pair(simd::Precision::kBfloat16, 0.9998), {simd::Precision::kInt8, 0.999}}) {
    const Tensor<float> logits = Logits(precision, pixels);
    ASSERT_EQ(logits.shape(), exact.shape());
    for (int64_t b = 0; b < exact.dim(0); ++b) {
      EXPECT_GE(RowCosine(logits, exact, b), least) << simd::Describe(precision).kernel << ", image " << b;
      EXPECT_NE(logits.view().row(b)[0], exact.view().row(b)[0]) << simd::Describe(precision).kernel;
    }
  }
}

}  // namespace
}  // namespace qkv::model
