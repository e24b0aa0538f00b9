// The targets of every file of kernels; include it first.
#pragma once

// One target per Isa, and plain C++ (EMU128 or SCALAR) for processors without SSSE3. These kernels gain nothing from
// SSE4 over SSSE3, or from AVX3_DL over AVX3. Register tiles are arrays of vectors, which is impossible for SVE's
// vectors of unknown length; 64-bit ARM runs NEON.
#define HWY_DISABLED_TARGETS (HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
