// How the kernels of one file are chosen among the instruction sets it was compiled for. Include it after
// hwy/highway.h, in .cc files only. QKV_DISPATCH(F)(…) calls the F of ActiveIsa(), where F went through HWY_EXPORT.
#pragma once

#include "hwy/highway.h"

namespace qkv::simd::internal {

/// Our own choice, not highway's process-wide one: another user of libhwy in the process must not notice QKV_ISA.
const hwy::ChosenTarget& Chosen();

}  // namespace qkv::simd::internal

#if HWY_IDE || ((HWY_TARGETS & (HWY_TARGETS - 1)) == 0)
#define QKV_DISPATCH(FUNC) HWY_STATIC_DISPATCH(FUNC)
#else
#define QKV_DISPATCH(FUNC) (*HWY_DISPATCH_TABLE(FUNC)[::qkv::simd::internal::Chosen().GetIndex()])
#endif
