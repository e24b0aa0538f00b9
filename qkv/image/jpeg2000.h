// JPEG 2000 through libopenjp2: codestreams in slides and DICOM files, and .jp2 files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "qkv/core/tensor.h"

namespace qkv::image {

/// What is decoded, as stored: subsampled components are brought to the size of the first by repetition.
struct Jpeg2000 {
  Tensor<int32_t> samples;  // [height, width, components]
  int bits = 8;             // of each component, 1 to 16
  bool is_signed = false;
  bool is_ycc = false;  // a .jp2 file says that its three components are YCbCr; a bare codestream says nothing
};

/// Decodes a codestream or a .jp2 file of at most `max_pixels` pixels. Throws Error, prefixed with `where`, for a
/// damaged or larger one, and if qkv was built without libopenjp2.
Jpeg2000 DecodeJpeg2000(std::span<const std::byte> bytes, int64_t max_pixels, std::string_view where);

/// Whether this build has libopenjp2.
bool HasJpeg2000();

}  // namespace qkv::image
