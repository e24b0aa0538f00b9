// How DICOM files begin.
#pragma once

#include <cstddef>
#include <span>

namespace qkv::image {

/// Bytes that IsDicom looks at.
inline constexpr size_t kDicomHeadBytes = 132;

/// Whether the bytes are the beginning of a DICOM file: its mark behind a preamble, or elements without one.
bool IsDicom(std::span<const std::byte> bytes);

}  // namespace qkv::image
