// Tests of all instruction sets, kAmx among them even where the machine has none.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "qkv/simd/isa.h"
#include "tests/simd/amx_trap.h"
#include "tests/support/isas.h"

namespace qkv::simd {

inline bool Available(Isa isa) {
  const std::vector<Isa> isas = AvailableIsas();
  return std::find(isas.begin(), isas.end(), isa) != isas.end();
}

// Gives a test of kAmx the instructions in software where the machine has none. Few rows of int8 go to the kernel of
// AVX-512 VNNI, which the machine must have.
class SoftwareAmx {
#if defined(__x86_64__) && defined(__linux__)
 public:
  static bool Needed() { return !Available(Isa::kAmx) && Available(Isa::kAvx512) && internal::HasAvx512Vnni(); }
  SoftwareAmx() {
    if (testing::WithParamInterface<IsaParameter>::GetParam().isa != Isa::kAmx || !Needed()) return;
    internal::SetAmxForTest(true);
    trap_.emplace();
  }
  ~SoftwareAmx() {
    if (trap_) internal::SetAmxForTest(false);
  }

 private:
  std::optional<AmxTrap> trap_;
#else
 public:
  static bool Needed() { return false; }
#endif
};

inline std::vector<IsaParameter> ParametersWithAmx() {
  std::vector<IsaParameter> parameters = IsaParameters();
  if (SoftwareAmx::Needed()) parameters.push_back({Isa::kAmx});
  return parameters;
}

}  // namespace qkv::simd
