// Runs a test once for each instruction set of the machine, and puts back the one that was active.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "qkv/simd/isa.h"

namespace qkv {

class IsaTest : public testing::TestWithParam<simd::Isa> {
 protected:
  IsaTest() : before_(simd::ActiveIsa()) { simd::SetIsa(GetParam()); }
  ~IsaTest() override { simd::SetIsa(before_); }

 private:
  simd::Isa before_;
};

inline std::string IsaTestName(const testing::TestParamInfo<simd::Isa>& info) {
  return std::string(simd::Name(info.param));
}

}  // namespace qkv

#define QKV_FOR_ALL_ISAS(Suite) \
  INSTANTIATE_TEST_SUITE_P(Isas, Suite, testing::ValuesIn(::qkv::simd::AvailableIsas()), ::qkv::IsaTestName)
