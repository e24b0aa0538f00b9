// NumPy's .npy format, version 1.0: one little-endian C-order array a file.
#pragma once

#include <filesystem>

#include "qkv/core/tensor.h"

namespace qkv::io {

/// T: float or double. Written whole or not at all.
template <typename T>
void WriteNpy(const std::filesystem::path& path, View<const T> array);

/// Throws Error when the file is no .npy of type T in C order, or shorter than its shape says.
template <typename T>
Tensor<T> ReadNpy(const std::filesystem::path& path);

}  // namespace qkv::io
