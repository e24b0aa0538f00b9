// Decoded tiles and strips, so that neighbouring regions do not decode twice. Internal to slide/read/.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "qkv/core/tensor.h"

namespace qkv::slide {

/// One tile or strip. Whoever holds `mutex` and finds it not ready decodes it; others wait instead of decoding too.
struct Piece {
  std::mutex mutex;
  bool ready = false;
  Tensor<uint8_t> rgb;  // [rows, width, 3]
};

/// The pieces used last, up to a number of bytes, and at least one. Threads may call it at a time.
class PieceCache {
 public:
  explicit PieceCache(int64_t bytes) : most_(bytes) {}

  /// The piece of this key, of `bytes` when decoded: as it is, or new. It lives as long as it is held.
  std::shared_ptr<Piece> Find(uint64_t key, int64_t bytes) {
    const std::scoped_lock lock(mutex_);
    if (const auto found = index_.find(key); found != index_.end()) {
      entries_.splice(entries_.begin(), entries_, found->second);
      return found->second->piece;
    }
    entries_.push_front({key, bytes, std::make_shared<Piece>()});
    index_[key] = entries_.begin();
    bytes_ += bytes;
    while (bytes_ > most_ && entries_.size() > 1) {
      bytes_ -= entries_.back().bytes;
      index_.erase(entries_.back().key);
      entries_.pop_back();
    }
    return entries_.front().piece;
  }

 private:
  struct Entry {
    uint64_t key;
    int64_t bytes;
    std::shared_ptr<Piece> piece;
  };

  const int64_t most_;
  std::mutex mutex_;
  std::list<Entry> entries_;  // the one used last is in front
  std::unordered_map<uint64_t, std::list<Entry>::iterator> index_;
  int64_t bytes_ = 0;
};

}  // namespace qkv::slide
