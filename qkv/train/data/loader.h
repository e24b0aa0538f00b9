// Prefetching data loader: its threads make batches of pixels ahead of the training step. The order is deterministic.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "qkv/core/tensor.h"
#include "qkv/image/preprocess.h"
#include "qkv/train/data/augment.h"
#include "qkv/train/data/image_store.h"

namespace qkv::train {

struct LoaderOptions {
  int64_t batch = 128;            // images per step, over all shards
  int64_t shard = 0, shards = 1;  // the part of every batch that this loader makes; all parts are equal
  image::Preprocess preprocess;   // crop size (height × width of the batches), rescale, mean and std
  // Training: shuffled by seed and epoch, augmented, endless. An epoch has only whole batches; if there are fewer
  // images than `batch`, a batch has all of them. Without augmentation: one pass in order over all images.
  std::optional<Augmentation> augmentation = {};
  uint64_t seed = 0;
  int64_t classes = 0;  // width of the targets, if augmentation mixes
  int64_t first_step = 0;
  int threads = 1;
  int ahead = 2;  // batches made in advance
};

struct LoadedBatch {
  int64_t step = 0, epoch = 0;
  int64_t first_image = 0;          // position of this shard's first image in the whole batch
  View<const float> pixels;         // [B, C, H, W]
  std::span<const int64_t> labels;  // [B]
  View<const float> targets;        // [B, classes], rows sum to 1, if augmentation mixes; else empty
};

class Loader {
 public:
  /// `images` must outlive the loader. They must be prepared, unless augmentation uses resized crops. Throws Error if
  /// sizes do not fit, or if a mixing pair would be split between shards.
  Loader(const ImageStore& images, LoaderOptions options);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  int64_t steps_per_epoch() const { return steps_; }
  /// Images of a whole batch, over all shards; fewer than requested if the data set is smaller.
  int64_t batch() const { return batch_; }

  /// Returns the next batch, valid until the next call, or null after the last batch of a pass without augmentation.
  /// Allocates nothing from the second batch on. Rethrows an exception of the thread that made this batch; no further
  /// batch follows.
  const LoadedBatch* Next();

  /// Continues with the batch of this step, counted from the start of training. For a pass, 0 starts it again.
  void Seek(int64_t step);

 private:
  struct Slot;
  struct Lane;
  // This shard's images of a step's batch: [begin + first, begin + first + count) of the epoch.
  struct Part {
    int64_t epoch, begin, first, count;
  };

  Part StepPart(int64_t step) const;
  bool Ended(int64_t step) const;
  void Restart(int64_t step);
  void Work(Lane& lane);
  void Make(Slot& slot, int64_t step, int64_t piece, Lane& lane) const;
  void MixPairs(Slot& slot, const Part& part, int64_t begin, int64_t end) const;

  const ImageStore& images_;
  const LoaderOptions options_;
  image::Preprocess normalise_;  // the remaining preprocessing of an image of the batch's size
  Shape image_shape_;            // [C, H, W]
  bool mixes_ = false;
  int64_t batch_ = 0, steps_ = 0;
  int64_t pieces_ = 0;  // of a batch; a thread makes one at a time

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Slot>> slots_;  // ring buffer: step s uses slot s mod size
  int64_t next_step_ = 0;                     // returned by the next call of Next
  int64_t claim_step_ = 0, claim_piece_ = 0;  // the piece that the next free thread makes
  int64_t busy_ = 0;                          // pieces in progress
  bool held_ = false;                         // the caller is reading batch next_step_ − 1
  bool paused_ = false, stopped_ = false;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::vector<std::thread> threads_;
};

/// Element i of a random permutation of 0 … n − 1 that depends on the key only. It needs no memory, so training can
/// start at any step: a Feistel network over the next power of four, cycle-walked until the result is below n (Black
/// and Rogaway 2002). Throws Error unless 0 <= i < n; otherwise the walk might not terminate.
int64_t ShuffledIndex(uint64_t key, int64_t n, int64_t i);

}  // namespace qkv::train
