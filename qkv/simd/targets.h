// What every file of kernels is compiled for; include it first.
#pragma once

// One target for each Isa, and plain C++ (EMU128 or SCALAR) for processors without SSSE3. SSE4 gives these kernels
// nothing over SSSE3, and AVX3_DL nothing over AVX3. The register tiles are arrays of vectors, which SVE's vectors of
// unknown length cannot be in: 64-bit ARM runs NEON.
#define HWY_DISABLED_TARGETS (HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
