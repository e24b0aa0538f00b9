// Rotary positions (Su et al. 2021, RoFormer, eq. 15): rotates each pair of features of queries and keys by an angle
// proportional to the token's coordinates, so that scores depend on relative positions only. In sequences all pairs
// rotate by the token's index; in images half of them by its row and half by its column (Heo et al. 2024, "Rotary
// Position Embedding for Vision Transformer", axial). Not here: the loop over a row (simd/rows/rotary.h).
#pragma once

#include <cstdint>
#include <vector>

#include "qkv/core/tensor.h"
#include "qkv/nn/block_config.h"

namespace qkv::nn {

/// Coordinates of tokens and frequencies of pairs. With P pairs per axis, pair a·P + i of token t rotates by
/// coordinates[t, a] · frequencies[a, i], in radians. A token with coordinates 0 is not rotated.
struct RotaryAngles {
  Tensor<double> coordinates;  // [tokens, axes]
  Tensor<double> frequencies;  // [axes, P]
};

/// Angles that sum over axes, with frequencies of each head (Heo et al. 2024, "mixed"): pair i of head h of token t
/// rotates by Σ_a coordinates[t, a] · frequencies[a, h, i], in radians.
struct MixedAngles {
  Tensor<double> coordinates;  // [tokens, axes]
  Tensor<double> frequencies;  // [axes, heads, E / 2]
};

inline constexpr double kUsualRotaryBase = 10'000;

/// How the frequencies of a sequence are lowered for texts longer than those of the training: all by `factor`, or, if
/// `trained` is not 0 (Llama 3), only those whose wavelength is above trained / low; those below trained / high stay as
/// they are, and between both the change is gradual.
struct RotaryScaling {
  double factor = 1;
  double low = 1, high = 4;
  int64_t trained = 0;

  bool operator==(const RotaryScaling&) const = default;
};

/// Angles of a sequence: one axis, coordinates 0 to length − 1, frequencies base^(−2i / E), scaled. Throws Error unless
/// E is even, base and factor are positive, and low < high.
RotaryAngles SequenceAngles(int64_t length, int64_t E, double base = kUsualRotaryBase,
                            const RotaryScaling& scaling = {});

/// Coordinates of patches, as a model's configuration gives them.
struct PatchCoordinates {
  double base = kUsualRotaryBase;  // `temperature` in timm
  double offset = 0;               // added to rows and columns (`grid_offset`)
  // Grid of the training images (`ref_feat_shape`), to which coordinates are scaled. 0: not scaled.
  int64_t trained_height = 0, trained_width = 0;
  bool columns_first = false;  // the first half of the pairs rotates by the column (`grid_indexing="xy"`)
};

/// Angles of images in units of patches, as in EVA-02 and timm's RotaryEmbeddingCat with in_pixels=False: the first
/// half of the pairs rotates by (row + offset) · trained_height / height, the second by the column likewise, with
/// frequencies base^(−4i / E). Prefix tokens are not rotated. Throws Error unless E is a multiple of 4 and the base is
/// positive.
RotaryAngles PatchAngles(const TokenGrid& grid, int64_t E, const PatchCoordinates& patches = {});

/// Angles of images of any size in the range −1 to 1, as in DINOv3: coordinates of patch centres, 2 (row + ½) /
/// height − 1 and columns likewise, frequencies 2π · base^(−4i / E). DINOv3 has half-split pairs: see
/// HalfSplitToNeighbours. Prefix tokens are not rotated. Throws Error unless E is a multiple of 4 and the base is
/// positive.
RotaryAngles NormalisedAngles(const TokenGrid& grid, int64_t E, double base = 100);

/// [tokens, 2]: row and column of each patch, in patches; prefix tokens have 0 and are not rotated. columns_first: the
/// column, then the row.
Tensor<double> PatchIndices(const TokenGrid& grid, bool columns_first);

/// qkv pairs neighbouring features, 2i and 2i + 1. Llama and DINOv3 in Hugging Face's layout, and timm with
/// rotate_half, pair features i and i + E/2. Feature f of qkv is their feature HalfSplitToNeighbours(E)[f]. A score is
/// a sum over features, so reordering them at loading leaves scores unchanged. To reorder in every head: the rows of
/// W_Q and W_K, their biases, and the weights and biases of a norm of queries and keys. Values and the projection stay
/// as they are. Throws Error unless E is even.
std::vector<int64_t> HalfSplitToNeighbours(int64_t E);

/// Cosines and sines of the angles, to rotate the pairs of each token's features. The pairs are those of algebra::Rope.
class RotaryTable {
 public:
  static constexpr double kUsualBase = kUsualRotaryBase;

  /// Throws Error if there are no tokens, or if an axis lacks frequencies.
  explicit RotaryTable(const RotaryAngles& angles);
  /// Each head has a table of its own. Throws Error likewise.
  explicit RotaryTable(const MixedAngles& angles);
  /// The table of SequenceAngles(length, E, base, scaling).
  RotaryTable(int64_t length, int64_t E, double base = kUsualBase, const RotaryScaling& scaling = {})
      : RotaryTable(SequenceAngles(length, E, base, scaling)) {}

  /// Memory of a table, in bytes.
  static double Bytes(int64_t length, int64_t E, int64_t heads = 1) {
    const double elements = 2 * static_cast<double>(heads) * static_cast<double>(length) * static_cast<double>(E);
    return (sizeof(double) + sizeof(float)) * elements;
  }

  int64_t heads() const { return exact_.dim(0); }  // 1: all heads rotate alike
  int64_t length() const { return exact_.dim(1); }
  int64_t width() const { return exact_.dim(3); }
  /// The table of a head, [length, 2, E]: for each token the cosines, then the sines, as simd::RotatePairs reads them.
  template <typename T>
  View<const T> table(int64_t head = 0) const;

 private:
  /// angle(head, token, pair), in radians.
  template <typename Angle>
  void Fill(const Shape& shape, Angle angle);

  Tensor<double> exact_;  // [heads, length, 2, E]
  Tensor<float> single_;  // the same values, rounded once
};

enum class RotaryDirection { kForward, kInverse };  // kBack is the transpose and inverse; gradients use it

/// Rotates rows of all heads. The tokens of every sequence or image have positions first, first + 1, … in the table.
/// x, y: [B·N, H·E], rows strided; N tokens per sequence; y may be x. Throws Error if the shapes do not fit, or if
/// heads have tables of their own.
template <typename T>
void RotateRows(View<const T> x, int64_t N, const RotaryTable& table, int64_t first, RotaryDirection direction,
                View<T> y);

/// As RotateRows, for heads: [B, H, N, E], any strides but a dense last axis.
template <typename T>
void RotateHeads(View<const T> x, const RotaryTable& table, int64_t first, View<T> y);

}  // namespace qkv::nn
