// What the parts of gemm.cc that are compiled once for each instruction set share with the rest of it.
#pragma once

#include <cstdint>

#include "qkv/simd/gemm.h"

namespace qkv::simd::internal {

inline constexpr int64_t kGemmChunk = 64;

template <typename T>
struct GemmTask {
  const T* x;  // [M, K]
  int64_t x_stride;
  const T* w;  // [panels][K][panel]
  T* y;        // [M, N] in heads: column n lies at y + n / head_width · head_stride + n % head_width
  int64_t y_stride, head_width, head_stride;
  int64_t N, K;
  int64_t block_depth;
  Gate gate;
  const Prologue<T>* prologue;
  const Epilogue<T>* epilogue;
};

}  // namespace qkv::simd::internal
