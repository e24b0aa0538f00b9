// Rotary positions (Su et al. 2021, RoFormer), and why they obstruct merging (note 13).
#pragma once

#include "qkv/algebra/projection.h"

namespace qkv::algebra {

struct Rope {
  int64_t width = 0;     // rotated features, the first of each head; even; 0 means all
  double base = 10'000;  // pair i rotates by position · base^(−2i / width)
};

/// R(p) applied after the projection: W' = R(p) W, b' = R(p) b; features 2i and 2i + 1 rotate together. Logits at
/// positions p and p' are those of (query, Rotate(key, p' − p)), so that Merge gives M(Δ) = W_Qᵀ R(Δ) W_K: one matrix
/// per offset, exact for that offset only, and b_K no longer drops out of the softmax. Rows from `width` on are not
/// rotated, and that part of the logits merges as without positions. Learned absolute positions (part of x) and
/// additive relative biases (added after) do not obstruct merging. Throws Error unless `width` is even and at most E.
Projection Rotate(const ProjectionView& projection, const Rope& rope, double position);

}  // namespace qkv::algebra
