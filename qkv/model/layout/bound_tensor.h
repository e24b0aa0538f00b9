// A tensor of tensor_table.h together with the stored tensors that hold it, and its values. Not here: finding them
// (binder.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "qkv/core/tensor.h"
#include "qkv/io/safetensors.h"
#include "qkv/model/layout/tensor_names.h"
#include "qkv/model/layout/tensor_table.h"

namespace qkv::model {

/// The first `rows` rows of a tensor, in heads of `head` rows, that a file stores half-split and the table has as
/// neighbours (nn::HalfSplitToNeighbours).
struct HalfSplitRows {
  int64_t rows = 0, head = 0;  // 0: none
};

/// Those of a tensor of this canonical name, if the configuration has rotary_halves.
HalfSplitRows FindHalfSplitRows(const VitConfig& config, std::string_view canonical);
HalfSplitRows FindHalfSplitRows(const SequenceConfig& config, std::string_view canonical);

/// The first `rows` rows of a tensor are those of the file multiplied by `factor`.
struct ScaledRows {
  int64_t rows = 0;  // 0: none
  double factor = 1;
};

/// The queries' of a tensor of this canonical name, if the configuration has SequenceConfig::unscaled_scores: the
/// factor 1/√E that attention will apply is taken back.
ScaledRows FindScaledRows(const SequenceConfig& config, std::string_view canonical);

/// Tables of rows [first, patches, last] in a file that are [first, last, patches] in the table.
struct LastTokens {
  int64_t first = 0, patches = 0, last = 0;  // last: 0: none

  int64_t rows() const { return first + patches + last; }  // of a table
};

/// Those of a tensor of this canonical name: positions of detection tokens, which precede the patches here.
LastTokens FindLastTokens(const VitConfig& config, std::string_view canonical);

enum class RowOrder { kToNeighbours, kToHalves };

/// Reorders dense rows of `row_bytes` bytes each.
void ReorderRows(const HalfSplitRows& split, RowOrder order, int64_t row_bytes, std::byte* rows);

/// A tensor of the table, and the stored tensors that hold it (concatenated along the first axis).
struct BoundTensor {
  TensorSpec spec;
  std::vector<const io::StoredTensor*> parts;
  Extract extract = {};  // not whole: of the only part
  // One more part, of the same shape and before parts[zero_part], is not stored: it is zero. −1: there is none.
  int zero_part = -1;
  HalfSplitRows split = {};
  ScaledRows scaled = {};
  LastTokens last_tokens = {};
};

/// The tensor of this canonical name; null if there is none.
const BoundTensor* FindTensor(const std::vector<BoundTensor>& tensors, std::string_view canonical);

/// Values in the table's shape. Throws Error if one is NaN or infinite, because it would spread to all outputs.
template <typename T>
Tensor<T> Read(const BoundTensor& bound);

/// Throws Error for tensors that are not plain weights: an adapter that was not merged, or quantised ones.
void RequirePlainWeights(const io::TensorSet& tensors);

}  // namespace qkv::model
