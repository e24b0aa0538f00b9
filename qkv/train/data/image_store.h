// Decodes the images of a split once and keeps them as bytes, in memory or in a mapped cache file.
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
#include "qkv/train/communicator.h"
#include "qkv/train/data/dataset.h"
#include "qkv/train/data/image_cache.h"

namespace qkv::train {

struct StoreOptions {
  int channels = 3;
  // Resize and crop are applied before an image is stored, so that all have one shape and take little memory. For
  // validation, and for augmentation that begins with the whole image.
  std::optional<image::Preprocess> prepare = {};
  // Without `prepare` (random resized crops need the whole image): the shorter side of larger images is reduced to
  // this; 0: never.
  int64_t shorter_side = 0;
  // Inverts images with a bright border first, for models that expect dark backgrounds (image/background.h).
  bool dark_background = false;
  // Folder of the cache that is kept between runs; empty: images stay in memory. `cache_bytes` limits all files there
  // together; 0: only free space limits them. If the limit is reached or the file cannot be written, images stay in
  // memory.
  std::filesystem::path cache = {};
  double cache_bytes = 0;
  // Limit of the images kept in memory, bytes; 0: no limit. Above it, none are kept.
  double memory_bytes = 0;
  // Estimate of the images' size, bytes; 0: unknown.
  double expected_bytes = 0;
  // False: keeps nothing and decodes each image on every access.
  bool keep = true;
  // Processes that read together: each decodes a part of the files and then receives the others. All must call the
  // constructor. Null: this process reads every file.
  Communicator* processes = nullptr;
  // Called by the constructor's thread with the number of files read so far.
  std::function<void(int64_t done, int64_t total)> progress = {};
  // Called with a sentence about where images are kept, if a file is written, and why the cache could not be used.
  std::function<void(const std::string& note)> note = {};
  // Called before each file is read, from any thread. If one process stops, all stop.
  std::function<bool()> stop = {};
};

class ImageStore {
 public:
  /// Reads every image once, on all cores, unless the cache has them. `split` must outlive the store. The cache has one
  /// file per list of files and choice of options. It is written whole or not at all, and again if it is damaged or a
  /// file's size or times have changed. Throws Error if no image can be read, and Stopped.
  ImageStore(const Split& split, StoreOptions options);
  ~ImageStore();

  /// m: the number of readable images.
  int64_t size() const { return static_cast<int64_t>(entries_.size()); }
  int64_t source(int64_t i) const { return entries_[static_cast<size_t>(i)].source; }  // index in the split
  int64_t label(int64_t i) const { return entries_[static_cast<size_t>(i)].label; }
  std::span<const std::string> unreadable() const { return unreadable_; }  // reasons, with the file's name
  int channels() const { return options_.channels; }
  int64_t height(int64_t i) const { return entries_[static_cast<size_t>(i)].height; }
  int64_t width(int64_t i) const { return entries_[static_cast<size_t>(i)].width; }
  bool prepared() const { return options_.prepare.has_value(); }
  bool from_cache() const { return from_cache_; }

  /// Decodes or copies image i, in the store's channels. Thread-safe. If images are kept, it allocates nothing for an
  /// image no larger than those before. Throws Error if nothing is kept and the file has become unreadable, and if the
  /// cache file was changed.
  void Get(int64_t i, image::Workspace& workspace, image::Image& image) const;

 private:
  struct Entry {
    int64_t source;  // index in the split
    int64_t label;
    size_t offset;  // of its pixels in bytes_
    int64_t height, width;
  };
  // Progress of reading the split's files.
  struct Assembly {
    ImageIndex index;
    uint64_t end;      // of the pixels written so far
    int64_t next = 0;  // next file to read
  };
  // Decodes a file, or converts an image of the split, to the store's geometry and channels.
  void Read(int64_t source, image::Workspace& workspace, image::Image& image) const;
  Assembly Begin() const;
  void ReadRound(int64_t begin, int64_t count);
  void Assemble(Assembly& assembly, FileSink* sink);
  bool WriteCache(const std::filesystem::path& file, uint64_t key, Assembly& assembly);
  bool KeepInCache(Assembly& assembly);
  void KeepInMemory(Assembly& assembly);
  bool InAllProcesses(bool here) const;
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

  // Used while files are read:
  struct Round;
  std::unique_ptr<Round> round_;
};

}  // namespace qkv::train
