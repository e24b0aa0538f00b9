// Inference of settings from tensors without a config.json.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/io/safetensors.h"
#include "qkv/model/config/description.h"

namespace qkv::model {

/// Longer than any tensor of a model; only a file without data can claim more.
inline constexpr int64_t kMaxTensorExtent = int64_t{1} << 32;

/// The number of heads of a model of this width, if no tensor has the extent of a head. A wrong guess would silently
/// change every result. Throws Error if none is given, or if it does not divide the width.
int64_t HeadsGiven(const ModelHints& given, int64_t width, int64_t depth);

/// A value that was assumed, in words, and the settings by which a caller states it.
struct Assumed {
  std::string text;
  std::vector<std::string_view> keys;
};

/// Adds a sentence of the values that `given` does not state, if any is left.
void AddAssumed(const std::vector<Assumed>& values, const ModelHints& given, std::vector<std::string>* assumptions);

/// Throws Error if the tensor is missing, lacks this axis, or is too long.
int64_t Extent(const io::TensorSet& tensors, const std::string& name, int axis);

/// Rows of a table of biases by relative position on the configuration's grid. Throws Error if its sizes are out of
/// range.
int64_t RelativeBiasRows(const VitConfig& config);

/// The side of the square grid whose table of biases by relative position has this many rows. Throws Error if there is
/// none.
int64_t SideOfRelativeBiases(int64_t rows);

/// True if `count` patches, at least one, form a square grid.
bool IsSquare(int64_t count);

/// The side of that grid. Throws Error if it is not square.
int64_t SquareSide(int64_t count);

}  // namespace qkv::model
