// The structure of a DICOM file, checked before DCMTK reads it: lengths within the file, bounded depth, and where the
// pixels are. DCMTK itself nests as deep as a file says, and takes memory by a length before it reads.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace qkv::dicom {

using Bytes = std::span<const uint8_t>;

struct Encoding {
  bool is_explicit = true;  // value representations are written
  bool big = false;         // big-endian
};

struct Structure {
  std::string syntax;  // UID of the transfer syntax; empty if the file does not say
  Encoding encoding;
  std::vector<uint8_t> inflated;  // the elements of a deflated file
  Bytes dataset;                  // elements before the pixels, of the file or `inflated`
  int64_t elements = 0;           // in `dataset`, at all depths

  bool has_pixels = false, has_floats = false;
  bool encapsulated = false;
  bool words = false;            // stored as OW
  Bytes native;                  // unless encapsulated
  std::vector<Bytes> fragments;  // if encapsulated
  std::vector<uint64_t> starts;  // of the fragments' items, from that of the first, in bytes
  Bytes offset_table;            // the basic one: 32-bit numbers, or empty
};

/// Throws Error, without a word of the header, for what is no whole DICOM file, and above `limit` bytes.
Structure ReadStructure(Bytes file, uint64_t limit);

/// The bytes that the structure and DCMTK's copy of the elements take, about.
uint64_t HeldBytes(const Structure& structure);

/// The fragments [first, last) of a frame. `extended`: the extended offset table, or empty. Throws Error if the file
/// does not say which these are.
std::pair<size_t, size_t> FragmentsOf(const Structure& structure, int64_t frame, int64_t frames,
                                      std::span<const uint64_t> extended);

}  // namespace qkv::dicom
