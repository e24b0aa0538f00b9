// The instruction set of the kernels: the best of the processor and the operating system, or QKV_ISA.
#pragma once

#include <string_view>
#include <vector>

namespace qkv::simd {

/// In ascending order. In float kAvxVnni computes like kAvx2 and kAmx like kAvx512; in lower precision kAvx512 uses
/// VNNI if the processor has it, and BF16 if it is faster.
enum class Isa { kBaseline, kAvx2, kAvxVnni, kAvx512, kAmx };

/// "baseline" (on 64-bit ARM "neon", in WebAssembly "simd128"), "avx2", "avxvnni", "avx512", "amx"
std::string_view Name(Isa isa);

/// The instruction sets of this machine, ascending; kBaseline is always included.
std::vector<Isa> AvailableIsas();

/// The active instruction set. Read from the environment variable QKV_ISA at the first call. Throws Error when QKV_ISA
/// is unknown or not available on this machine.
Isa ActiveIsa();

/// Makes `isa` the active one (for tests and benchmarks). Throws Error when this machine lacks it.
/// Weights packed before stay valid only for the instruction set that packed them.
void SetIsa(Isa isa);

namespace internal {

/// Features of the processor beyond the instruction sets, usable under kAvx512 and kAmx.
bool HasAvx512Vnni();
bool HasAvx512Bf16();
/// Its dot products are faster than multiply-adds of floats: twice as fast on AMD's Zen 5, but 0.47 of their speed on
/// Intel's fifth-generation Xeon, which has AMX for bfloat16 (qkv_micro_bench --benchmark_filter=Peak).
bool Avx512Bf16IsFaster();

/// Tests only: adds kAmx to the machine's instruction sets, or removes it. Its instructions must be emulated.
void SetAmxForTest(bool amx);
/// Tests only: kBaseline uses the plain C++ kernels for processors without SSSE3. Keeps the active ISA.
void SetPortableForTest(bool portable);

}  // namespace internal
}  // namespace qkv::simd
