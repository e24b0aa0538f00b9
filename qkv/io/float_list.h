// Floats as JSON with as few digits as they need.
#pragma once

#include <span>

#include "qkv/io/json.h"

namespace qkv::io {

/// The double that is printed with the fewest digits which read back as `value`: half of those of a float as it is.
double ShortestDouble(float value);

/// A list of them.
Json FloatList(std::span<const float> values);

}  // namespace qkv::io
