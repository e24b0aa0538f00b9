#include "qkv/io/crc32.h"

#include <libdeflate.h>
#include <zlib.h>

#include <algorithm>
#include <vector>

#include "qkv/core/file_error.h"
#include "qkv/core/parallel.h"

namespace qkv::io {

uint32_t Crc32(std::span<const std::byte> bytes) {
  constexpr size_t kPiece = size_t{1} << 20;  // joining two checksums takes a millionth of a second
  const size_t pieces = (bytes.size() + kPiece - 1) / kPiece;
  if (pieces <= 1) return ExtendCrc32(0, bytes);
  std::vector<uint32_t> sums(pieces);
  ParallelFor(static_cast<int64_t>(pieces), 1, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      sums[i] = ExtendCrc32(0, bytes.subspan(i * kPiece, std::min(kPiece, bytes.size() - i * kPiece)));
    }
  });
  return JoinCrc32(sums, kPiece, bytes.size());
}

uint32_t ExtendCrc32(uint32_t before, std::span<const std::byte> bytes) {
  return libdeflate_crc32(before, bytes.data(), bytes.size());
}

uint32_t JoinCrc32(std::span<const uint32_t> sums, size_t piece, size_t bytes) {
  uLong sum = 0;
  for (size_t i = 0; i < sums.size(); ++i) {
    sum = crc32_combine(sum, sums[i], static_cast<z_off_t>(std::min(piece, bytes - i * piece)));
  }
  return static_cast<uint32_t>(sum);
}

void StoredChecksum::RequireIntact() const {
  if (!intact_.load(std::memory_order_relaxed)) RequireEqual(Crc32(bytes_));
}

void StoredChecksum::RequireEqual(uint32_t crc) const {
  if (crc != crc_) {
    throw FileError(what_ + ": it is damaged: its checksum differs; download or copy the file again");
  }
  intact_.store(true, std::memory_order_relaxed);
}

}  // namespace qkv::io
