// Runs a test once per instruction set of the machine, and restores the active one.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "qkv/simd/isa.h"

namespace qkv {

struct IsaParameter {
  simd::Isa isa;
  bool portable = false;  // plain C++ instead of the baseline's vectors
};

inline std::vector<IsaParameter> IsaParameters() {
  std::vector<IsaParameter> parameters;
#ifdef __x86_64__  // elsewhere there is only the baseline
  parameters.push_back({simd::Isa::kBaseline, true});
#endif
  for (const simd::Isa isa : simd::AvailableIsas()) parameters.push_back({isa});
  return parameters;
}

class IsaTest : public testing::TestWithParam<IsaParameter> {
 protected:
  IsaTest() : before_(simd::ActiveIsa()) {
    simd::SetIsa(GetParam().isa);
    simd::internal::SetPortableForTest(GetParam().portable);
  }
  ~IsaTest() override {
    simd::internal::SetPortableForTest(false);
    simd::SetIsa(before_);
  }

 private:
  simd::Isa before_;
};

inline std::string IsaTestName(const testing::TestParamInfo<IsaParameter>& info) {
  return info.param.portable ? "portable" : std::string(simd::Name(info.param.isa));
}

}  // namespace qkv

#define QKV_FOR_ALL_ISAS(Suite) \
  INSTANTIATE_TEST_SUITE_P(Isas, Suite, testing::ValuesIn(::qkv::IsaParameters()), ::qkv::IsaTestName)
