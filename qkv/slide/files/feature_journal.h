// The vectors of a slide's tiles while it is being embedded, one record a tile, so that a run that was killed goes on
// where it stopped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "qkv/core/tensor.h"
#include "qkv/io/json.h"

namespace qkv::slide {

/// A line of JSON, then a record for each tile with a checksum. A record is in the file when Add returns: the process
/// may be killed at any instant. After a power failure or a full disk, what follows the last intact record is dropped.
/// Threads may call the members at a time, except damaged() and Remove().
class FeatureJournal {
 public:
  /// Opens `path` (NAME.h5.part) or makes it. `what`: what the vectors were made with; a journal of something else, or
  /// of another number of tiles, is begun anew, and `note`, if any, receives a sentence on it. Throws Error with the
  /// system's reason, also if another process has it open.
  FeatureJournal(std::filesystem::path path, const io::Json& what, int64_t tiles,
                 const std::function<void(const std::string&)>& note);
  FeatureJournal(const FeatureJournal&) = delete;
  FeatureJournal& operator=(const FeatureJournal&) = delete;
  ~FeatureJournal();

  /// Whether there is a vector, or a reason why there is none.
  bool Has(size_t tile) const;
  /// Tiles without a vector, and why.
  const std::map<size_t, std::string>& damaged() const { return damaged_; }

  /// In any order of tiles; all vectors have the width of the first. Throws Error for another width, and with the
  /// system's reason; what was there before stays.
  void Add(size_t tile, std::span<const float> vector);
  /// A reason longer than 4,096 bytes is cut off.
  void AddDamaged(size_t tile, const std::string& why);

  struct Rows {
    std::vector<size_t> tiles;  // that have a vector, ascending
    Tensor<float> features;     // [tiles.size(), width]; [0, 0] without any
  };
  /// Throws Error above MemoryLimit(), and with the system's reason.
  Rows Read() const;

  /// Removes the file, once the vectors are in theirs.
  void Remove();

 private:
  void Load(size_t begin);
  void Begin(const std::string& header);
  void Append(uint32_t kind, size_t tile, std::span<const std::byte> payload);

  const std::filesystem::path path_;
  int descriptor_ = -1;
  mutable std::mutex mutex_;
  uint64_t end_ = 0;               // of the last record
  size_t width_ = 0;               // 0 until the first vector
  std::vector<uint64_t> vectors_;  // of each tile: where its vector begins in the file; 0: none
  std::map<size_t, std::string> damaged_;
};

}  // namespace qkv::slide
