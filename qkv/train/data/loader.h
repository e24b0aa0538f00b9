// Batches of pixels, made by threads of their own ahead of the step that wants them, always in the same order.
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
  int64_t batch = 128;            // images of a step, over all shards
  int64_t shard = 0, shards = 1;  // which of the equal parts of every batch is made here
  image::Preprocess preprocess;   // crop size (height × width of the batches), rescale, mean and std
  // Training: shuffled by seed and epoch, augmented, without end. An epoch is as many whole batches as there are
  // images for, and one smaller batch where there are not that many. Without it: one pass in order, all images.
  std::optional<Augmentation> augmentation = {};
  uint64_t seed = 0;
  int64_t classes = 0;  // of the targets, where augmentation mixes
  int64_t first_step = 0;
  int threads = 1;
  int ahead = 2;  // batches that are made before they are asked for
};

struct LoadedBatch {
  int64_t step = 0, epoch = 0;
  int64_t first_image = 0;          // of this shard's part in the whole batch
  View<const float> pixels;         // [B, C, H, W]
  std::span<const int64_t> labels;  // [B]
  View<const float> targets;        // [B, classes], rows sum to 1, where augmentation mixes; else empty
};

class Loader {
 public:
  /// `images` must outlive the loader; without augmentation, and for all but resized crops, it is a prepared one.
  /// Throws Error when sizes do not fit, or mixing pairs would lie in two shards.
  Loader(const ImageStore& images, LoaderOptions options);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  int64_t steps_per_epoch() const { return steps_; }
  /// Images of a whole batch, over all shards: fewer than asked for where there are not that many.
  int64_t batch() const { return batch_; }

  /// The next batch, valid until the next call; null after the last of a pass without augmentation. From the second
  /// batch on nothing is allocated. Rethrows what a thread threw while it made this batch; there are no more then.
  const LoadedBatch* Next();

  /// The next batch is that of this step, counted from the beginning of training; of a pass, 0 begins again.
  void Seek(int64_t step);

 private:
  struct Slot;
  struct Lane;
  // Of a step's batch: images [begin + first, … + count) of the epoch are this shard's.
  struct Part {
    int64_t epoch, begin, first, count;
  };

  Part PartOf(int64_t step) const;
  bool Ended(int64_t step) const;
  void Restart(int64_t step);
  void Work(Lane& lane);
  void Make(Slot& slot, int64_t step, int64_t piece, Lane& lane) const;
  void MixPairs(Slot& slot, const Part& part, int64_t begin, int64_t end) const;

  const ImageStore& images_;
  const LoaderOptions options_;
  image::Preprocess normalise_;  // what is left to do with an image of the batch's size
  Shape image_shape_;            // [C, H, W]
  bool mixes_ = false;
  int64_t batch_ = 0, steps_ = 0;
  int64_t pieces_ = 0;  // of a a batch, which a thread makes one of at a time

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Slot>> slots_;  // a ring: a step's is step mod their number
  int64_t next_step_ = 0;                     // that Next returns
  int64_t claim_step_ = 0, claim_piece_ = 0;  // what is made next
  int64_t busy_ = 0;                          // pieces that are being made
  bool held_ = false;                         // the caller reads the batch before next_step_
  bool paused_ = false, stopped_ = false;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::vector<std::thread> threads_;
};

/// Place i of a random order of 0 … n − 1 that depends on the key alone. Needs no memory, so that any step can be the
/// first: a Feistel network of the next power of four, walked until it lands below n (Black and Rogaway 2002). Throws
/// Error unless 0 <= i < n: from elsewhere the walk may never end.
int64_t ShuffledIndex(uint64_t key, int64_t n, int64_t i);

}  // namespace qkv::train
