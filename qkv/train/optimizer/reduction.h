// Gradients summed over threads and processes while the backward pass that makes them still runs: a range of the flat
// buffer goes on its way as soon as nobody adds to it any more.
#pragma once

#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "qkv/core/tensor.h"
#include "qkv/train/optimizer/communicator.h"

namespace qkv::train {

template <typename T>
class Reduction {
 public:
  /// The communicator must outlive it.
  explicit Reduction(Communicator& communicator) : communicator_(communicator) {}
  ~Reduction() {
    if (begun()) communicator_.AbandonSums();
  }

  /// A sum of these buffers, each [P], into the first of all processes; the others become zeros. So many workers will
  /// tell what is final.
  void Begin(std::span<const View<T>> buffers, int64_t workers);
  bool begun() const { return workers_ > 0; }

  /// This worker, from 0, adds to [begin, end) no more. All tell the same ranges, each in the same order, from threads
  /// of their own.
  void Finished(int64_t worker, int64_t begin, int64_t end);

  /// Waits until all that was finished is summed.
  void End();

 private:
  struct Range {
    int64_t begin, end, told;  // by how many workers
  };

  Communicator& communicator_;
  int64_t workers_ = 0;
  std::mutex mutex_;
  std::vector<View<T>> buffers_;
  std::vector<Range> ranges_;      // in the order in which they become final
  std::vector<int64_t> finished_;  // ranges, by each worker
};

}  // namespace qkv::train
