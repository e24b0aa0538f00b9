// Selects the kernels of one file among the instruction sets it was compiled for. Include it after hwy/highway.h, in
// .cc files only. QKV_DISPATCH(F)(…) calls the F of ActiveIsa(); F needs HWY_EXPORT.
#pragma once

#include "hwy/highway.h"

namespace qkv::simd::internal {

/// A selection of our own instead of highway's process-wide one: QKV_ISA must not affect other users of libhwy in the
/// process.
const hwy::ChosenTarget& Chosen();

}  // namespace qkv::simd::internal

#if HWY_IDE || ((HWY_TARGETS & (HWY_TARGETS - 1)) == 0)
#define QKV_DISPATCH(FUNC) HWY_STATIC_DISPATCH(FUNC)
#else
#define QKV_DISPATCH(FUNC) (*HWY_DISPATCH_TABLE(FUNC)[::qkv::simd::internal::Chosen().GetIndex()])
#endif
