// Matrix products in bfloat16 and int8, called by gemm.cc and implemented in gemm_low.cc.
#pragma once

#include "qkv/simd/gemm/gemm_task.h"

namespace qkv::simd::internal {

/// The kernel for ActiveIsa() and the processor.
const TileKernel& SelectTileKernel(Precision precision);

/// w: [N, K], gated [2·N, K].
LowPanels PackLow(View<const float> w, Gate gate, const Packing& packing);

/// From memory that PackLow filled under the same ActiveIsa(). Throws Error when its shapes are not those of the
/// kernel.
LowPanels RestoreLow(const PackedForm& form, Tensor<uint8_t> groups, Tensor<float> columns);

/// The right-hand operand of a product in the order of a kernel, in any memory.
struct LowOperand {
  const TileKernel* kernel = nullptr;
  const uint8_t* groups = nullptr;  // [panels][depth / group][panel][group]
  const float* columns = nullptr;   // as in LowPanels
  int64_t panels = 0, depth = 0;
};

/// The cache lines of w that a product reads first.
CacheLines FirstSlice(const LowPanels& w);

/// The product that `task` describes (its w and block_depth are not used) with M rows.
/// Throws Error when w was packed for another instruction set.
void GemmLow(const GemmTask<float>& task, int64_t M, Precision precision, const LowPanels& w);

/// The same with sections of K. Their depth is a multiple of the kernel's chunk and their panels follow each other in
/// `w`. Rows of x may be neighbours instead of dense (task.x_step) if the kernel multiplies bfloat16.
void RunLowProduct(const GemmTask<float>& task, int64_t M, const LowOperand& w, const DepthCut& sections);

}  // namespace qkv::simd::internal
