// A split's images, decoded once: kept in memory, or in a file that is mapped, as bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "qkv/core/file.h"
#include "qkv/image/preprocess.h"
#include "qkv/image/workspace.h"
#include "qkv/train/data/dataset.h"
#include "qkv/train/data/image_cache.h"
#include "qkv/train/optimizer/communicator.h"

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
  // Where decoded images are kept between runs; empty: in memory. How many bytes the files there may have together; 0:
  // as many as there is space for. Where they may not, or cannot be written, images are kept in memory.
  std::filesystem::path cache = {};
  double cache_bytes = 0;
  // How many bytes may be kept in memory; 0: any number. Of more, nothing is kept.
  double memory_bytes = 0;
  // About how many bytes the images will have; 0: unknown.
  double expected_bytes = 0;
  // False: nothing is kept, and each image is decoded whenever it is asked for.
  bool keep = true;
  // That read it together, each a part of the files, and then have all: the constructor is called by all of them. Null:
  // this one reads all.
  Communicator* processes = nullptr;
  // Told how many files were read so far, of how many, by the constructor's thread.
  std::function<void(int64_t done, int64_t total)> progress = {};
  // Told in a sentence where images are kept, when that is a file that is made, and what they could not be kept in.
  std::function<void(const std::string& note)> note = {};
  // Asked before each file is read, from any thread. Of several processes one that is to stop stops all.
  std::function<bool()> stop = {};
};

class ImageStore {
 public:
  /// Reads every image once, on all cores, unless the cache has them. `split` must outlive the store. The cache is one
  /// file for each list of files and choice of options, written whole or not at all; it is made anew when a file's size
  /// or times have changed, or when it is damaged. Throws Error when no image can be read, and Stopped.
  ImageStore(const Split& split, StoreOptions options);
  ~ImageStore();

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
  /// Throws Error when nothing is kept, and the file cannot be read any more; and when the cache's file was changed.
  void Get(int64_t i, image::Workspace& workspace, image::Image& image) const;

 private:
  struct Entry {
    int64_t source;  // in the split
    int64_t label;
    size_t offset;  // of its pixels in bytes_
    int64_t height, width;
  };
  // How far the files of the split were read.
  struct Assembly {
    ImageIndex index;
    uint64_t end;      // of the pixels that were written
    int64_t next = 0;  // file
  };
  // A file, or an image of the split, in the geometry and the channels of the store.
  void Read(int64_t source, image::Workspace& workspace, image::Image& image) const;
  Assembly Begin() const;
  void ReadRound(int64_t begin, int64_t count);
  void Assemble(Assembly& assembly, FileSink* sink);
  bool WriteCache(const std::filesystem::path& file, uint64_t key, Assembly& assembly);
  bool KeepInCache(Assembly& assembly);
  void KeepInMemory(Assembly& assembly);
  bool InAll(bool here) const;
  void Note(const std::string& text) const;
  bool OpenCache(const std::filesystem::path& file, uint64_t key);
  void Use(const ImageIndex& index, std::span<const std::byte> bytes);

  const Split& split_;
  StoreOptions options_;
  std::vector<Entry> entries_;
  std::vector<std::string> unreadable_;
  std::vector<std::byte> memory_;
  MappedFile file_;
  std::filesystem::path file_path_;
  std::span<const std::byte> bytes_;
  bool from_cache_ = false;

  // While files are read:
  struct Round;
  std::unique_ptr<Round> round_;
};

}  // namespace qkv::train
