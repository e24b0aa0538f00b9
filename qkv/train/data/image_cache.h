// Format of the decoded-image cache, and its folder: size limit, eviction, and removal of files that killed processes
// left. Not here: decoding (image_store.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/core/file.h"

namespace qkv::train {

/// The value whose bytes begin at `at`, at any alignment.
template <typename T>
T ReadValue(std::span<const std::byte> bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(value));
  return value;
}

/// One file of the split. Its pixels [height, width, channels] begin at `offset` in the stored bytes.
struct ImageRecord {
  uint64_t offset = 0;
  int64_t height = 0, width = 0;  // 0: the file is unreadable
};

struct ImageIndex {
  std::vector<ImageRecord> records;  // [files]
  std::vector<std::string> reasons;  // why files could not be read, one line each
};

/// What cached images must match to be used for a split.
struct ImageIndexLimits {
  uint64_t key = 0;  // hash of files and options
  size_t files = 0;
  int64_t channels = 3;
  int64_t height = 0, width = 0;  // of every image; 0: any
};

/// Offset of the first pixel.
uint64_t FirstPixel();
/// Begin writes the header, Finish the index and the footer; `end` is the length of header and pixels together.
void BeginImages(FileSink& sink, uint64_t key);
void FinishImages(FileSink& sink, uint64_t key, const ImageIndex& index, uint64_t end);
/// Parses the index. Returns nothing if the bytes have another key or are damaged. Every record lies within `bytes`.
std::optional<ImageIndex> ParseImages(std::span<const std::byte> bytes, const ImageIndexLimits& limits);

/// "train-0123456789abcdef.images"
std::string ImageCacheName(std::string_view split, uint64_t hash);

/// The cache folder, opened by a process that is about to write a file into it.
class ImageCacheFolder {
 public:
  /// Creates the folder. Unless another process is writing into it, removes unfinished files of killed processes, and
  /// the oldest files while the total plus `expected` bytes exceeds `most` (0: no limit). Throws Error, with the
  /// system's reason, if the folder cannot be created or opened.
  ImageCacheFolder(const std::filesystem::path& path, double most, double expected);
  ~ImageCacheFolder();
  ImageCacheFolder(const ImageCacheFolder&) = delete;
  ImageCacheFolder& operator=(const ImageCacheFolder&) = delete;

  /// Bytes available to a new file: limited by `most` and by half of the free space (if `most` is 0, nine tenths of
  /// it).
  double room() const { return room_; }

 private:
  int lock_ = -1;
  double room_ = 0;
};

}  // namespace qkv::train
