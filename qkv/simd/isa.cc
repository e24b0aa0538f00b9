#include "qkv/simd/isa.h"

#include <atomic>
#include <cstdlib>

#include "qkv/core/error.h"
#include "qkv/simd/dispatch.h"

#if HWY_ARCH_X86_64
#include <cpuid.h>
#endif
#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace qkv::simd {
namespace {

#if HWY_ARCH_X86_64
constexpr Isa kAll[] = {Isa::kBaseline, Isa::kAvx2, Isa::kAvxVnni, Isa::kAvx512, Isa::kAmx};
#else
constexpr Isa kAll[] = {Isa::kBaseline};
#endif

// Features that highway does not query. Intel SDM volume 2A, CPUID, leaf 7.
struct Features {
  bool avx_vnni = false, avx512_vnni = false, avx512_bf16 = false, amx = false, intel = false;
};

#if HWY_ARCH_X86_64

// Linux enables the tile registers only on request (Documentation/arch/x86/xstate.rst).
bool RequestTilePermission() {
#ifdef __linux__
  constexpr int kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

Features DetectFeatures() {
  Features features;
  uint32_t a = 0, b = 0, c = 0, d = 0;
  features.intel = __get_cpuid(0, &a, &b, &c, &d) != 0 && b == signature_INTEL_ebx;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return features;
  const auto bit = [](uint32_t word, int i) { return (word >> i & 1) != 0; };
  features.avx512_vnni = bit(c, 11);
  const bool amx = bit(d, 22) && bit(d, 24) && bit(d, 25);  // BF16, TILE, INT8
  if (a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d)) {
    features.avx_vnni = bit(a, 4);
    features.avx512_bf16 = bit(a, 5);
  }
  features.amx = amx && RequestTilePermission();
  return features;
}

#else
Features DetectFeatures() { return {}; }
#endif

Features& CpuFeatures() {
  static Features features = DetectFeatures();
  return features;
}

bool Available(Isa isa) {
  // HWY_AVX3 requires F, CD, BW, DQ and VL; both require that the operating system saves the registers.
  const bool avx2 = (hwy::SupportedTargets() & HWY_AVX2) != 0, avx512 = (hwy::SupportedTargets() & HWY_AVX3) != 0;
  switch (isa) {
    case Isa::kBaseline:
      return true;
    case Isa::kAvx2:
      return avx2;
    case Isa::kAvxVnni:
      return avx2 && CpuFeatures().avx_vnni;
    case Isa::kAvx512:
      return avx512;
    case Isa::kAmx:
      return avx512 && CpuFeatures().avx512_vnni && CpuFeatures().amx;  // int8 products of few rows use VNNI
  }
  return false;
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
    std::string names;
    for (const Isa known : kAll) names += fmt::format("{}{}", names.empty() ? "" : ", ", Name(known));
    Fail("QKV_ISA: expected one of {}, got \"{}\"", names, name);
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

State& IsaState() {
  static State state;
  return state;
}

}  // namespace

std::string_view Name(Isa isa) {
  switch (isa) {
    case Isa::kBaseline:
      return HWY_ARCH_ARM_A64 ? "neon" : HWY_ARCH_WASM ? "simd128" : "baseline";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvxVnni:
      return "avxvnni";
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAmx:
      return "amx";
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

Isa ActiveIsa() { return IsaState().isa.load(std::memory_order_relaxed); }

void SetIsa(Isa isa) {
  Require(Available(isa), "isa: this machine cannot run {}", Name(isa));
  IsaState().Set(isa);
}

namespace internal {

bool HasAvx512Vnni() { return CpuFeatures().avx512_vnni; }
bool HasAvx512Bf16() { return CpuFeatures().avx512_bf16; }
bool Avx512Bf16IsFaster() { return HasAvx512Bf16() && !CpuFeatures().intel; }

const hwy::ChosenTarget& Chosen() { return IsaState().chosen; }

void SetAmxForTest(bool amx) { CpuFeatures().amx = amx; }

void SetPortableForTest(bool portable) {
  IsaState().portable = portable;
  IsaState().Set(ActiveIsa());
}

}  // namespace internal
}  // namespace qkv::simd
