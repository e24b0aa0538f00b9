// NumPy's .npy format, version 1.0: one little-endian C-order array per file.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

#include "qkv/core/file.h"
#include "qkv/core/tensor.h"
#include "qkv/io/tensor_set.h"

namespace qkv::io {

/// To the sink of a file. T: float or double.
template <typename T>
void WriteNpy(FileSink& sink, View<const T> array);
/// To a file, written whole or not at all. T: float or double.
template <typename T>
void WriteNpy(const std::filesystem::path& path, View<const T> array);

/// Throws Error if the file is not a .npy of type T in C order, or is shorter than its shape requires.
template <typename T>
Tensor<T> ReadNpy(const std::filesystem::path& path);

/// The array of a .npy file of half, float or double, mapped: the only tensor of the result, without a name. Throws
/// Error as ReadNpy.
TensorSet MapNpy(const std::filesystem::path& path);
/// The same for bytes in memory, which must outlive the result. `where` is the prefix of errors.
TensorSet NpyFromBytes(std::span<const std::byte> bytes, std::string_view where);

}  // namespace qkv::io
