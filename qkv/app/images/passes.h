// A pass over images for folders (pipeline.h) and for requests of a server alike: what is wanted of it, and how many
// images are computed together.
#pragma once

#include <cstdint>

#include "qkv/core/tensor.h"
#include "qkv/model/model.h"

namespace qkv::app {

enum class Wanted {
  kPixels,  // [B, channels, height, width], for callers that run the model themselves
  kLogits,  // [B, C]
  kPooled,  // [B, pooled_width]
  kTokens,  // [B, N, D]
};

/// From this many images for each thread on, threads have batches of their own. With fewer, too many threads would have
/// no work at the end.
inline constexpr int64_t kManyPerThread = 4;

/// Images of this size that are computed together: as many token rows as a product works on at a time.
int64_t ImagesTogether(const model::Model& model, int64_t height, int64_t width);

/// Computes logits, pooled or tokens of pixels [B, channels, height, width] into `values`, whose memory is used again.
/// Throws Error as Model::Forward.
void ComputePass(const model::Model& model, Wanted wanted, View<const float> pixels, model::Workspace<float>& workspace,
                 Tensor<float>& values);

}  // namespace qkv::app
