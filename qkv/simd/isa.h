// Which instruction set the kernels use: the best that the processor and the operating system offer, or QKV_ISA.
#pragma once

#include <string_view>
#include <vector>

namespace qkv::simd {

/// In ascending order. In float kAvxVnni computes as kAvx2 and kAmx as kAvx512; in the lower precisions kAvx512 uses
/// VNNI where the processor has it, and BF16 where that pays.
enum class Isa { kBaseline, kAvx2, kAvxVnni, kAvx512, kAmx };

/// "baseline" (on 64-bit ARM "neon"), "avx2", "avxvnni", "avx512", "amx"
std::string_view Name(Isa isa);

/// What this machine can run, ascending; kBaseline is always there.
std::vector<Isa> AvailableIsas();

/// The one in use. Read from the environment variable QKV_ISA at the first call.
/// Throws Error when QKV_ISA names none, or one that this machine lacks.
Isa ActiveIsa();

/// Makes `isa` the active one (for tests and benchmarks). Throws Error when this machine lacks it.
/// Weights packed before stay valid only for the instruction set that packed them.
void SetIsa(Isa isa);

namespace internal {

/// What the processor has beyond the instruction sets, usable under kAvx512 and kAmx.
bool HasAvx512Vnni();
bool HasAvx512Bf16();
/// Its dot products are faster than multiply-adds of floats: twice as fast on AMD's Zen 5, but 0.47 of their speed on
/// Intel's fifth-generation Xeon, which has AMX for bfloat16 (qkv_micro_bench --benchmark_filter=Peak).
bool Avx512Bf16Pays();

/// Tests only: makes kAmx one of the machine's instruction sets, or not. Its instructions must be done in software.
void SetAmxForTest(bool amx);
/// Tests only: kBaseline takes the plain C++ kernels that serve processors without SSSE3. Keeps the active ISA.
void SetPortableForTest(bool portable);

}  // namespace internal
}  // namespace qkv::simd
