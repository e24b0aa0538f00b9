// Decoded images as they are kept, in memory or in a file, and the folder of such files: what is in it, how much may
// be, and what a killed process left there. Not here: decoding (image_store.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/core/file.h"

namespace qkv::train {

/// A file of the split. Its pixels [height, width, channels] begin at `offset` of the kept bytes.
struct ImageRecord {
  uint64_t offset = 0;
  int64_t height = 0, width = 0;  // 0: unreadable
};

struct ImageIndex {
  std::vector<ImageRecord> records;  // [files]
  std::vector<std::string> reasons;  // why files could not be read, a line each
};

/// What kept images must be to answer for a split.
struct ImageIndexLimits {
  uint64_t key = 0;  // of files and options
  size_t files = 0;
  int64_t channels = 3;
  int64_t height = 0, width = 0;  // of every image; 0: any
};

/// Where the pixels begin.
uint64_t FirstPixel();
/// Writes what stands before the pixels, and behind `end` bytes of that and pixels.
void BeginImages(FileSink& sink, uint64_t key);
void FinishImages(FileSink& sink, uint64_t key, const ImageIndex& index, uint64_t end);
/// Reads it again: nothing for bytes that were made of something else, or are damaged. Every record lies within them.
std::optional<ImageIndex> ParseImages(std::span<const std::byte> bytes, const ImageIndexLimits& limits);

/// "train-0123456789abcdef.images"
std::string ImageCacheName(std::string_view split, uint64_t hash);

/// The folder of such files, for a process that is about to write one.
class ImageCacheFolder {
 public:
  /// Makes the folder. Unless another process is writing into it, removes what killed ones left of files of such names,
  /// and, where the files together and `expected` more bytes are above `most` (0: any number), the oldest of them.
  /// Throws Error, with the system's reason, when the folder cannot be made or opened.
  ImageCacheFolder(const std::filesystem::path& path, double most, double expected);
  ~ImageCacheFolder();
  ImageCacheFolder(const ImageCacheFolder&) = delete;
  ImageCacheFolder& operator=(const ImageCacheFolder&) = delete;

  /// Bytes that a new file may have: what `most` leaves, and half of the space that is left (of `most` 0, nine tenths).
  double room() const { return room_; }

 private:
  int lock_ = -1;
  double room_ = 0;
};

}  // namespace qkv::train
