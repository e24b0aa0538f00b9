// Tiles and strips of a TIFF as RGB. Internal to slide/read/.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/core/tensor.h"
#include "qkv/slide/read/tiff_file.h"

namespace qkv::slide {

/// Why pieces of this page cannot be decoded; empty if they can. In words that fit behind "NAME: ".
std::string UnreadablePage(const TiffPage& page);

/// Bytes of memory that decoding a piece takes, its RGB included.
double PieceBytes(const TiffPage& page);

/// Which pieces were never written, as sparse files and some scanners leave them. Throws Error, prefixed with `where`,
/// if the table of pieces is damaged.
std::vector<bool> AbsentPieces(const TiffFile& file, const TiffPage& page, std::string_view where);

/// Decodes piece `index`, row by row from the upper left, into `rgb` [piece_height, piece_width, 3]; the last strip may
/// be lower. Alpha is blended over white. Throws Error, prefixed with `where`, for a damaged piece.
void DecodePiece(const TiffFile& file, const TiffPage& page, int64_t index, std::string_view where,
                 Tensor<uint8_t>& rgb);

}  // namespace qkv::slide
