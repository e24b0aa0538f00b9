// Matrix products in bfloat16 and int8: what gemm.cc hands on to gemm_low.cc.
#pragma once

#include "qkv/simd/gemm_task.h"

namespace qkv::simd::internal {

/// The kernel that ActiveIsa() and the processor allow.
const TileKernel& KernelOf(Precision precision);

/// w: [N, K], gated [2·N, K].
LowPanels PackLow(View<const float> w, Gate gate, Precision precision);

/// Of memory that PackLow filled under the same ActiveIsa(). Throws Error when its shapes are not what the kernel asks
/// for.
LowPanels RestoreLow(const PackedForm& form, Tensor<uint8_t> groups, Tensor<float> columns);

/// The product that `task` describes (its w and block_depth are not used) with M rows.
/// Throws Error when w was packed for another instruction set.
void GemmLow(const GemmTask<float>& task, int64_t M, Precision precision, const LowPanels& w);

}  // namespace qkv::simd::internal
