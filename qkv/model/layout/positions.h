// Position embeddings: learned ones resampled to another grid, and computed ones for grids and sequences. Not here:
// rotary positions (nn/rotary.h).
#pragma once

#include "qkv/core/tensor.h"
#include "qkv/model/config/sequence_config.h"
#include "qkv/model/config/vit_config.h"

namespace qkv::model {

/// Resamples the grid part of learned positions to another grid, as torch.nn.functional.interpolate does for the
/// family. from: [from_h·from_w, D], to: [to_h·to_w, D], both dense. Computed in double. Throws Error for
/// Interpolation::kNone.
template <typename T>
void ResampleGrid(View<const T> from, int64_t from_height, int64_t from_width, Interpolation interpolation,
                  int64_t to_height, int64_t to_width, View<T> to);

/// SimpleViT's fixed positions (Beyer, Zhai, Kolesnikov 2022): for column x, row y and ω_i = 10000^(−i / (D/4 − 1)) the
/// features are sin(x ω), cos(x ω), sin(y ω), cos(y ω), each D/4 long. to: [height·width, D].
template <typename T>
void SinCosGrid(int64_t height, int64_t width, View<T> to);

/// Fixed positions of a sequence (Vaswani et al. 2017, §3.5): the sine and the cosine of p · 10000^(−2i / D) for
/// position p are features 2i and 2i + 1 or, in halves, i and D/2 + i (Marian). fairseq's are halves of
/// p · 10000^(−i / (D/2 − 1)). to: [length, D]. Throws Error unless D is even.
template <typename T>
void SinCosSequence(View<T> to, SequencePositions positions = SequencePositions::kSinusoidal);

/// The fixed positions of a configuration, [position_offset + length, D]; empty if it has none.
template <typename T>
Tensor<T> ComputedPositions(const SequenceConfig& config);

/// Biases of relative positions on the scores of each head, by distance: [H, 2 · length − 1], for distances 1 − length
/// to length − 1, the key's position less the query's. table: [relative_buckets, H].
template <typename T>
Tensor<T> RelativeScores(const SequenceConfig& config, View<const T> table);

}  // namespace qkv::model
