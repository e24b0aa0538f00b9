// What a family reads off tensors that came without a config.json.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "qkv/io/safetensors.h"
#include "qkv/model/config/description.h"

namespace qkv::model {

/// Longer than any tensor of a model; only a file without data can claim more.
inline constexpr int64_t kMaxTensorExtent = int64_t{1} << 32;

/// The number of heads of a model of this width where no tensor has the extent of a head. A wrong guess would change
/// every answer silently. Throws Error when none is given, or one that does not divide the width.
int64_t HeadsGiven(const Given& given, int64_t width);

/// Throws Error when the tensor is missing, has no such axis, or is too long.
int64_t Extent(const io::SafeTensors& tensors, const std::string& name, int axis);

/// Whether `count` patches, at least one, form a square grid.
bool IsSquare(int64_t count);

/// The side of that grid. Throws Error when there is none.
int64_t SquareSide(int64_t count);

}  // namespace qkv::model
