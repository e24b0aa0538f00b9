// Zip archives in memory, as PyTorch writes them: a strict reader of the central directory, with zip64. Nothing is
// unpacked to disk. Not here: encryption, archives in several volumes, compression other than deflate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace qkv::io {

struct ZipEntry {
  std::string name;                  // with its folders, "archive/data.pkl"
  std::span<const std::byte> bytes;  // as they lie in the archive
  uint64_t size = 0;                 // once unpacked; equals bytes.size() if stored
  uint32_t crc = 0;                  // of the unpacked bytes
  bool deflated = false;

  /// PyTorch leaves it out of what it stores after torch.serialization.set_crc32_options(False), and in what it only
  /// reserves room for (skip_data): then it is 0.
  bool has_checksum() const { return deflated || crc != 0; }
};

bool IsZip(std::span<const std::byte> bytes);

/// Lists the entries, sorted by name; folders are left out. Throws Error, prefixed with `where`, for an archive that is
/// cut off, for directories and headers that contradict each other or the file's length, entries that overlap, are
/// encrypted, repeated, compressed with another method than deflate or claim an impossible size, names that lead
/// outside of a folder, and more than 2^18 entries.
std::vector<ZipEntry> ListZip(std::span<const std::byte> bytes, std::string_view where);

/// The entry of this name; null if there is none.
const ZipEntry* FindEntry(std::span<const ZipEntry> sorted, std::string_view name);

/// Unpacks an entry that is deflated into memory of entry.size bytes. Throws Error, prefixed with `where`, if the size
/// exceeds the memory limit (core/memory.h), and for data that is damaged, of another size or another checksum.
std::vector<std::byte> Unpack(const ZipEntry& entry, std::string_view where);

}  // namespace qkv::io
