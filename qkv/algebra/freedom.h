// How many numbers a pair stores, and how many of them the attention sees (note 6, claim C8).
#pragma once

#include <cstdint>

#include "qkv/algebra/projection.h"

namespace qkv::algebra {

/// Of one head. With a bias every count includes it; which ones the attention sees depends on `terms`.
struct ParameterCount {
  int64_t separate = 0;        // W_Q, W_K (and b_Q, b_K): 2DE (+ 2E)
  int64_t merged = 0;          // M (and u; with kExact also w and c): fewer than separate without biases iff E > D/2
  int64_t identity_block = 0;  // W_Q and W_K with an E×E block the identity (E <= D, else 0): separate − E²
  int64_t freedom = 0;         // of the logits: the dimension of the AᵀB that factors of width E reach
};

/// 2DE − E² is the freedom of a pair without biases for E <= D, D² for E >= D: matrices of rank k among m×n have
/// k (m + n − k) of them. A bias adds a row to m (kSoftmax) or a row and a column to m and n (kExact).
ParameterCount CountParameters(int64_t D, int64_t E, bool bias, Terms terms);

}  // namespace qkv::algebra
