#include "qkv/io/checksum.h"

#include <libdeflate.h>
#include <zlib.h>

#include <algorithm>
#include <vector>

#include "qkv/core/error.h"
#include "qkv/core/parallel.h"

namespace qkv::io {

uint32_t Crc32(std::span<const std::byte> bytes) {
  constexpr size_t kPiece = size_t{1} << 20;  // joining two checksums takes a millionth of a second
  const auto piece = [&](size_t i) { return bytes.subspan(i * kPiece, std::min(kPiece, bytes.size() - i * kPiece)); };
  const size_t pieces = (bytes.size() + kPiece - 1) / kPiece;
  if (pieces <= 1) return libdeflate_crc32(0, bytes.data(), bytes.size());
  std::vector<uint32_t> sums(pieces);
  ParallelFor(static_cast<int64_t>(pieces), 1, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      sums[i] = libdeflate_crc32(0, piece(i).data(), piece(i).size());
    }
  });
  uLong sum = sums[0];
  for (size_t i = 1; i < pieces; ++i) sum = crc32_combine(sum, sums[i], static_cast<z_off_t>(piece(i).size()));
  return static_cast<uint32_t>(sum);
}

void StoredChecksum::RequireIntact() const {
  if (intact_.load(std::memory_order_relaxed)) return;
  Require(Crc32(bytes_) == crc_, "{}: it is damaged: its checksum differs; download or copy the file again",
          EscapedText{what_});
  intact_.store(true, std::memory_order_relaxed);
}

}  // namespace qkv::io
