// A product of one tile in low precision: the contract between the drivers (gemm_low.cc and simd/attention, bf16.cc and
// backward_bf16.cc), which arrange rows and weights, and the kernels of each instruction set, which use intrinsics
// because libhwy has no equivalent.
#pragma once

#include <cstdint>

#include "qkv/core/tensor.h"

namespace qkv::simd::internal {

/// C[rows][panel] = A B, or += if not `first`. Both operands are in groups of `group` consecutive k, whose products are
/// summed in one lane of the accumulator:
///   a: [depth / chunk][rows][chunk] of bfloat16 or uint8, 64 bytes a chunk and row;
///   b: [depth / group][panel][group] of bfloat16 or int8;
///   c: [rows][panel] of float (bfloat16) or int32 (int8).
/// depth is a multiple of chunk; the driver pads with zeros. `next` is memory to prefetch while multiplying, `lines`
/// cache lines of it, or null: the weights of the next calls.
using TileMultiply = void (*)(int rows, const void* a, const void* b, int64_t depth, bool first, void* c,
                              const char* next, int64_t lines);

struct TileKernel {
  const char* name = nullptr;  // "avx512_vnni", …
  int panel = 0;               // columns of a panel of weights
  int rows = 0;                // greatest number in a tile; any count from 1 on is allowed
  int group = 0;               // 2 (bfloat16) or 4 (int8)
  int chunk = 0;               // elements of A in 64 bytes: 64 (uint8), 32 (bfloat16) or 16 (see below)
  // int8 only: limits of activations (unsigned) and weights (signed, symmetric) below which nothing saturates.
  int activation_max = 0, weight_max = 0;
  TileMultiply multiply = nullptr;
  // If not null, a thread calls it after its last multiply of a product: it releases AMX tiles.
  void (*finish)() = nullptr;
};

/// For machines that cannot multiply bfloat16: the kernel widens the weights, and A is float, 16 per chunk. For the
/// target of ActiveIsa(), through libhwy.
const TileKernel& Bf16Widened();
/// For machines without a dot product of bytes: exact, in pairs of int16.
const TileKernel& Int8Pairs();

/// Weights in the order of a kernel.
struct LowPanels {
  const TileKernel* kernel = nullptr;
  int64_t panels = 0, depth = 0;  // depth: K padded to whole chunks
  Tensor<uint8_t> groups;         // [panels][depth / group][panel][group]
  // int8 only, [2][panels · panel]: each column's scale s, and s · Σ_k w, the factor of a row's offset.
  Tensor<float> columns;

  int64_t bytes() const { return groups.size() + columns.size() * static_cast<int64_t>(sizeof(float)); }
};

// Each requires the instruction set of its name; the driver selects.
extern const TileKernel kInt8Avx2, kInt8AvxVnni, kInt8Avx512Vnni, kInt8Amx, kBf16Avx512, kBf16Amx;

}  // namespace qkv::simd::internal
