// Computes values from keys, so that a cache stores keys only (note 18).
#pragma once

#include "qkv/algebra/projection.h"

namespace qkv::algebra {

/// V = W' k + b' for every token, W' = W_V W_K⁻¹ [D_v, D], b' = b_V − W' b_K.
struct ValuesFromKeys {
  Projection from_keys;  // input: one key, all heads together
  double condition = 0;  // σ_max / σ_min of W_K: greatest amplification of the keys' rounding errors
};

/// key: W_K, b_K of all heads together, square [D, D]; value: W_V [D_v, D], b_V. Exact for keys directly after the
/// projection, before rotary positions or a norm. Throws Error unless W_K is square (H·E = D) and invertible to working
/// precision.
ValuesFromKeys MakeValuesFromKeys(const ProjectionView& key, const ProjectionView& value);

}  // namespace qkv::algebra
