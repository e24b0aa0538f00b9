// A split's images, decoded once: kept in memory, or in a file that is mapped, as bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "qkv/core/file.h"
#include "qkv/image/preprocess.h"
#include "qkv/image/workspace.h"
#include "qkv/train/communicator.h"
#include "qkv/train/dataset.h"

namespace qkv::train {

struct StoreOptions {
  int channels = 3;
  // Its resize and crop are done before an image is kept: all have one shape then, and what is kept is small. For
  // validation, and for augmentation that begins with the whole image.
  std::optional<image::Preprocess> prepare = {};
  // Otherwise (random resized crops want the whole image), the shorter side of larger ones becomes this; 0: as it is.
  int64_t shorter_side = 0;
  // Images with a bright border are inverted first, as by a model that expects dark ones (image/background.h).
  bool dark_background = false;
  // Where decoded images are kept between runs; empty: in memory.
  std::filesystem::path cache = {};
  // False: nothing is kept, and each image is decoded whenever it is asked for.
  bool keep = true;
  // That read it together, each a part of the files, and then have all: the constructor is called by all of them. Null:
  // this one reads all.
  Communicator* processes = nullptr;
  // Told how many files were read so far, of how many, by the constructor's thread.
  std::function<void(int64_t done, int64_t total)> progress = {};
};

class ImageStore {
 public:
  /// Reads every image once, on all cores, unless the cache has them. `split` must outlive the store. The cache is one
  /// file for each list of files and choice of options, written whole or not at all; it is made anew when a file's size
  /// or times have changed, or when it is damaged. Throws Error when no image can be read, or the cache not be written.
  ImageStore(const Split& split, StoreOptions options);

  /// m: the images that could be read.
  int64_t size() const { return static_cast<int64_t>(entries_.size()); }
  int64_t source(int64_t i) const { return entries_[static_cast<size_t>(i)].source; }  // its place in the split
  int64_t label(int64_t i) const { return entries_[static_cast<size_t>(i)].label; }
  std::span<const std::string> unreadable() const { return unreadable_; }  // why, with the file's name
  int channels() const { return options_.channels; }
  int64_t height(int64_t i) const { return entries_[static_cast<size_t>(i)].height; }
  int64_t width(int64_t i) const { return entries_[static_cast<size_t>(i)].width; }
  bool prepared() const { return options_.prepare.has_value(); }
  bool from_cache() const { return from_cache_; }

  /// Image i, in the store's channels. From any thread; where images are kept, one that is no larger than those before
  /// allocates nothing.
  /// Throws Error when nothing is kept, and the file cannot be read any more.
  void Get(int64_t i, image::Workspace& workspace, image::Image& image) const;

 private:
  struct Entry {
    int64_t source;  // in the split
    int64_t label;
    size_t offset;  // of its pixels in bytes_
    int64_t height, width;
  };
  // A file, or an image of the split, in the geometry and the channels of the store.
  void Read(int64_t source, image::Workspace& workspace, image::Image& image) const;
  void Assemble(FileSink& sink, uint64_t key);
  bool InAll(bool here) const;
  // False for bytes that were made of something else, or are damaged.
  bool Open(std::span<const std::byte> bytes, uint64_t key);
  bool OpenCache(const std::filesystem::path& file, uint64_t key);

  const Split& split_;
  StoreOptions options_;
  std::vector<Entry> entries_;
  std::vector<std::string> unreadable_;
  std::vector<std::byte> memory_;
  MappedFile file_;
  std::span<const std::byte> bytes_;
  bool from_cache_ = false;
};

}  // namespace qkv::train
