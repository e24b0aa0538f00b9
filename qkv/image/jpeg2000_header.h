// What a JPEG 2000 file declares of itself, read before a library allocates by it. Internal to qkv/image.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace qkv::image {

struct Jpeg2000Header {
  bool is_file = false;            // .jp2, with boxes; else a bare codestream
  int64_t width = 0, height = 0;   // of the first component
  int components = 0;              // 1 to 4, of the codestream
  int channels = 0;                // behind a palette; else `components`
  int64_t grid_x = 0, grid_y = 0;  // upper left corner of the picture on the reference grid
  int64_t library_bytes = 0;       // that libopenjp2 holds while it decodes, its picture included
};

/// Reads boxes and markers (ISO/IEC 15444-1, annexes A and I). Throws Error, prefixed with `where`, for what is cut
/// or inconsistent, for tiles without data, and for more than 4 components or 16 bits.
Jpeg2000Header ReadJpeg2000Header(std::span<const std::byte> bytes, int64_t max_pixels, std::string_view where);

}  // namespace qkv::image
