#include "qkv/simd/isa.h"

#include <atomic>
#include <cstdlib>

#include "qkv/core/error.h"
#include "qkv/simd/dispatch.h"

namespace qkv::simd {
namespace {

constexpr Isa kAll[] = {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512};

// HWY_AVX3 asks for F, CD, BW, DQ and VL, and for the operating system's saving of the registers.
constexpr int64_t kAbove[] = {HWY_AVX2, HWY_AVX3};

bool Available(Isa isa) {
  return isa == Isa::kBaseline || (hwy::SupportedTargets() & kAbove[static_cast<int>(isa) - 1]) != 0;
}

struct State {
  State() {
    const char* name = std::getenv("QKV_ISA");
    if (name == nullptr || *name == '\0') {
      Set(AvailableIsas().back());
      return;
    }
    for (const Isa candidate : kAll) {
      if (Name(candidate) != name) continue;
      Require(Available(candidate), "QKV_ISA: this machine cannot run {}", name);
      Set(candidate);
      return;
    }
    Fail("QKV_ISA: expected baseline, avx2 or avx512, got \"{}\"", name);
  }

  void Set(Isa value) {
    int64_t targets = hwy::SupportedTargets() & ~(HWY_AVX3_DL);
    if (value < Isa::kAvx512) targets &= ~HWY_AVX3;
    if (value < Isa::kAvx2) targets &= ~HWY_AVX2;
    if (portable) targets &= ~(HWY_SSE4 | HWY_SSSE3);
    chosen.Update(targets);
    isa.store(value, std::memory_order_relaxed);
  }

  hwy::ChosenTarget chosen;
  std::atomic<Isa> isa;
  bool portable = false;
};

State& TheState() {
  static State state;
  return state;
}

}  // namespace

std::string_view Name(Isa isa) {
  switch (isa) {
    case Isa::kBaseline:
      return "baseline";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
  }
  return "?";
}

std::vector<Isa> AvailableIsas() {
  std::vector<Isa> isas;
  for (const Isa isa : kAll) {
    if (Available(isa)) isas.push_back(isa);
  }
  return isas;
}

Isa ActiveIsa() { return TheState().isa.load(std::memory_order_relaxed); }

void SetIsa(Isa isa) {
  Require(Available(isa), "isa: this machine cannot run {}", Name(isa));
  TheState().Set(isa);
}

namespace internal {

const hwy::ChosenTarget& Chosen() { return TheState().chosen; }

void SetPortableForTest(bool portable) {
  TheState().portable = portable;
  TheState().Set(ActiveIsa());
}

}  // namespace internal
}  // namespace qkv::simd
