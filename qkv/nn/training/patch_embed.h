// From pixels to patch tokens in training, forward and backward. Not here: the gradient of the pixels, which training
// does not need, and inference (nn/patch_embed.h).
#pragma once

#include "qkv/core/arena.h"
#include "qkv/nn/training/linear.h"
#include "qkv/nn/training/norm.h"

namespace qkv::nn {

/// Weights (T const), or gradients with the same layout.
template <typename T>
struct PatchEmbedParameters {
  NormParameters<T> norm_in;       // over a patch's C·P_h·P_w pixels, or empty
  LinearParameters<T> projection;  // [D, C·P_h·P_w]
  NormParameters<T> norm_out;      // over D, or empty
};

struct PatchEmbedSettings {
  int64_t patch_height = 0, patch_width = 0;
  bool channel_last = false;  // see CutPatches
};

/// Kept by the forward pass, in the arena passed to it. P = C·P_h·P_w, R = B·grid_h·grid_w.
template <typename T>
struct PatchEmbedCache {
  View<T> patches, patch_moments;        // [R, P], [R, 2] (norm_in)
  View<T> projected, projected_moments;  // [R, D], [R, 2] (norm_out)
};

/// tokens[b, n] = norm_out(projection(norm_in(patch n of image b))), as PatchEmbedForward in inference. pixels:
/// [B, C, height, width]; tokens: [B, grid_h·grid_w, D], any stride between images, so that prefix tokens may come
/// first. The cache lives in `arena` until the caller's scope ends. Throws Error if the shapes do not fit.
template <typename T>
void PatchEmbedForward(View<const T> pixels, const PatchEmbedParameters<const T>& p, const PatchEmbedSettings& settings,
                       View<T> tokens, PatchEmbedCache<T>& cache, Arena& arena);

/// Adds the gradients of the weights to d. dtokens: shaped as tokens. Same bits for any number of threads.
template <typename T>
void PatchEmbedBackward(const PatchEmbedParameters<const T>& p, const PatchEmbedCache<T>& cache, View<const T> dtokens,
                        const PatchEmbedParameters<T>& d, Arena& arena);

}  // namespace qkv::nn
