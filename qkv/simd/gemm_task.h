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
  T* y;        // [M, N]
  int64_t y_stride;
  int64_t N, K;
  int64_t block_depth;
  const Epilogue<T>* epilogue;
};

}  // namespace qkv::simd::internal
