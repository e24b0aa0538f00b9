// Forward pass from pixels to patch tokens: cuts patches and applies one linear layer. Not here: training
// (training/patch_embed.h).
#pragma once

#include "qkv/core/arena.h"
#include "qkv/nn/linear.h"
#include "qkv/nn/norm.h"

namespace qkv::nn {

/// Copies the patches of each image, row by row from the top. Features are in the order of a convolution's weights
/// (channel, row, column), or channel last. pixels: [B, C, height, width], dense rows; patches:
/// [B·grid_h·grid_w, C·P_h·P_w], or in chunks (simd::Gemm) [B·grid_h·grid_w, C·P_h·P_w / 64, 64]. The grid is
/// floor(size / patch); pixels beyond it at the right and bottom are not read. Throws Error if the shapes do not fit.
template <typename T>
void CutPatches(View<const T> pixels, int64_t patch_height, int64_t patch_width, bool channel_last, View<T> patches);

template <typename T>
struct PatchEmbed {
  int64_t patch_height = 0, patch_width = 0;
  bool channel_last = false;  // see CutPatches
  Norm<T> norm_in;            // over the patch's pixels, or empty
  Linear<T> projection;       // [D, C·P_h·P_w]
  Norm<T> norm_out;           // over D, or empty
};

/// tokens[b, n] = norm_out(projection(norm_in(patch n of image b))), patches row by row from the top.
/// pixels: [B, C, height, width], dense; tokens: [B, grid_h·grid_w, D], dense.
template <typename T>
void PatchEmbedForward(View<const T> pixels, const PatchEmbed<T>& embed, View<T> tokens, Arena& arena);

}  // namespace qkv::nn
