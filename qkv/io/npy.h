// NumPy's .npy format, version 1.0: one little-endian C-order array per file.
#pragma once

#include <filesystem>

#include "qkv/core/tensor.h"

namespace qkv::io {

/// T: float or double. The file is written atomically.
template <typename T>
void WriteNpy(const std::filesystem::path& path, View<const T> array);

/// Throws Error if the file is not a .npy of type T in C order, or is shorter than its shape requires.
template <typename T>
Tensor<T> ReadNpy(const std::filesystem::path& path);

}  // namespace qkv::io
