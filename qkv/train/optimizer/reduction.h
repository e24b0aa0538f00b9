// Sums gradients over threads and processes during the backward pass: a range of the flat buffer is reduced as soon as
// it is final.
#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "qkv/core/tensor.h"
#include "qkv/train/communicator.h"

namespace qkv::train {

template <typename T>
class Reduction {
 public:
  /// `communicator` must outlive this object.
  explicit Reduction(Communicator& communicator) : communicator_(communicator) {}
  ~Reduction() {
    if (begun()) communicator_.CancelSums();
  }

  /// Starts the sum of these buffers, each [P], into the first buffer of every process; the others become zero.
  /// `workers` is the number of workers that will call Finished.
  void Begin(std::span<const View<T>> buffers, int64_t workers);
  bool begun() const { return workers_ > 0; }

  /// Worker `worker`, from 0, adds no more to [begin, end). All workers report the same ranges in the same order, each
  /// from its own thread.
  void Finished(int64_t worker, int64_t begin, int64_t end);

  /// Waits until all finished ranges are summed.
  void End();

 private:
  struct Range {
    int64_t begin, end, told;  // told: by how many workers
  };

  Communicator& communicator_;
  int64_t workers_ = 0;
  std::mutex mutex_;
  std::vector<View<T>> buffers_;
  std::vector<Range> ranges_;      // in the order they become final
  std::vector<int64_t> finished_;  // ranges reported by each worker
};

}  // namespace qkv::train
