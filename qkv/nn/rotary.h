// Rotary positions (Su et al. 2021, RoFormer, eq. 15): each pair of a query's and a key's features is turned by an
// angle in proportion to the token's coordinates, so that a score depends on the distance of two tokens and not on
// where they stand. In sequences all pairs turn by the token's place, in images half of them by its row and half by its
// column (Heo et al. 2024, "Rotary Position Embedding for Vision Transformer", axial).
#pragma once

#include <cstdint>
#include <vector>

#include "qkv/core/tensor.h"
#include "qkv/nn/block_config.h"

namespace qkv::nn {

/// Where tokens stand and how fast pairs of features turn. Of P pairs for each axis, pair a·P + i of token t turns by
/// coordinates[t, a] · frequencies[a, i], in radians. A token whose coordinates are 0 is not turned.
struct RotaryAngles {
  Tensor<double> coordinates;  // [tokens, axes]
  Tensor<double> frequencies;  // [axes, P]
};

inline constexpr double kUsualRotaryBase = 10'000;

/// A sequence: one axis, coordinates 0 to length − 1, frequencies base^(−2i / E). Throws Error unless E is even and the
/// base is positive.
RotaryAngles SequenceAngles(int64_t length, int64_t E, double base = kUsualRotaryBase);

/// How a model counts patches.
struct PatchCoordinates {
  double base = kUsualRotaryBase;  // `temperature` in timm
  double offset = 0;               // of the first row and column (`grid_offset`)
  // The grid that the model was trained on (`ref_feat_shape`): coordinates are scaled to it. 0: not scaled.
  int64_t trained_height = 0, trained_width = 0;
  bool columns_first = false;  // the first half of the pairs turns by the column (`grid_indexing="xy"`)
};

/// Images in units of patches, as EVA-02 and timm's RotaryEmbeddingCat with in_pixels=False count them: the first half
/// of the pairs turns by (row + offset) · trained_height / height, the second by the column likewise, with frequencies
/// base^(−4i / E). Prefix tokens are not turned. Throws Error unless E is a multiple of 4 and the base is positive.
RotaryAngles PatchAngles(const TokenGrid& grid, int64_t E, const PatchCoordinates& patches = {});

/// Images of any size in the range −1 to 1, as DINOv3 counts them: patch centres, coordinates 2 (row + ½) / height − 1
/// and columns likewise, frequencies 2π · base^(−4i / E). Its pairs are half-split: see HalfSplitToNeighbours. Prefix
/// tokens are not turned. Throws Error unless E is a multiple of 4 and the base is positive.
RotaryAngles NormalisedAngles(const TokenGrid& grid, int64_t E, double base = 100);

/// Pairs are neighbouring features, 2i and 2i + 1, here. Llama and DINOv3 as Hugging Face has them turn features i and
/// i + E/2, and so does timm with rotate_half. Feature f here is feature HalfSplitToNeighbours(E)[f] there. A score is
/// a sum over features, so these models give the same scores if at loading the rows of W_Q and W_K and the elements of
/// their biases are reordered alike in every head, and so are the weights and biases of a norm of queries and keys over
/// a head's features. Values and the projection stay. Throws Error unless E is even.
std::vector<int64_t> HalfSplitToNeighbours(int64_t E);

/// What turns the pairs of each token's features. The pairs are those of algebra::Rope.
class RotaryTable {
 public:
  static constexpr double kUsualBase = kUsualRotaryBase;

  /// Throws Error unless there are tokens, and frequencies for each axis.
  explicit RotaryTable(const RotaryAngles& angles);
  /// Of SequenceAngles.
  RotaryTable(int64_t length, int64_t E, double base = kUsualBase) : RotaryTable(SequenceAngles(length, E, base)) {}

  int64_t length() const { return exact_.dim(0); }
  int64_t width() const { return exact_.dim(2); }
  /// [length, 2, E]: of each token the cosines, and the sines as simd::TurnPairs takes them.
  template <typename T>
  View<const T> table() const;

 private:
  Tensor<double> exact_;
  Tensor<float> single_;  // the same, rounded once
};

enum class Turn { kForward, kBack };  // kBack is the transpose: of gradients, and what undoes the other

/// The tokens of every sequence or image are tokens first, first + 1, … of the table.
/// x, y: [B·N, H·E], rows strided; N tokens a sequence; y may be x. Throws Error when the shapes do not fit.
template <typename T>
void TurnRows(View<const T> x, int64_t N, const RotaryTable& table, int64_t first, Turn turn, View<T> y);

/// The same of heads: [B, H, N, E], any strides but a dense last axis.
template <typename T>
void TurnHeads(View<const T> x, const RotaryTable& table, int64_t first, View<T> y);

}  // namespace qkv::nn
