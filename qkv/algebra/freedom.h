// Counts the stored parameters of a pair and its degrees of freedom (note 6, claim C8).
#pragma once

#include <cstdint>

#include "qkv/algebra/projection.h"

namespace qkv::algebra {

/// Counts for one head. With a bias every count includes it; `terms` decides which bias terms count.
struct ParameterCount {
  int64_t separate = 0;        // W_Q, W_K (and b_Q, b_K): 2DE (+ 2E)
  int64_t merged = 0;          // M (and u; with kExact also w and c): fewer than separate without biases iff E > D/2
  int64_t identity_block = 0;  // W_Q and W_K with an E×E block the identity (E <= D, else 0): separate − E²
  int64_t freedom = 0;         // of the logits: the dimension of the AᵀB that factors of width E reach
};

/// The freedom of a pair without biases is 2DE − E² for E <= D and D² for E >= D: m×n matrices of rank k have k (m + n
/// − k) degrees of freedom. A bias adds a row to m (kSoftmax), or a row and a column to m and n (kExact).
ParameterCount CountParameters(int64_t D, int64_t E, bool bias, Terms terms);

}  // namespace qkv::algebra
