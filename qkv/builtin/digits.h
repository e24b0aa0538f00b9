// The digit classifier of models/digits, inside the binary: no file to find, nothing to read.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace qkv::builtin {

/// models/digits/config.json.
std::string_view DigitsConfig();

/// models/digits/model.safetensors, on a 64-byte boundary.
std::span<const std::byte> DigitsWeights();

}  // namespace qkv::builtin
