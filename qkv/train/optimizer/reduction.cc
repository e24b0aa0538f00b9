#include "qkv/train/optimizer/reduction.h"

#include "qkv/core/error.h"
#include "qkv/train/optimizer/optimizer.h"

namespace qkv::train {

template <typename T>
void Reduction<T>::Begin(std::span<const View<T>> buffers, int64_t workers) {
  buffers_.assign(buffers.begin(), buffers.end());
  finished_.assign(static_cast<size_t>(workers), 0);
  ranges_.clear();
  workers_ = workers;
}

template <typename T>
void Reduction<T>::Finished(int64_t worker, int64_t begin, int64_t end) {
  // Under the lock, so that all processes start their sums in the order of the ranges.
  const std::lock_guard lock(mutex_);
  const auto at = static_cast<size_t>(finished_[static_cast<size_t>(worker)]++);
  if (at == ranges_.size()) ranges_.push_back({begin, end, 0});
  Range& range = ranges_[at];
  Require(range.begin == begin && range.end == end, "reduction: [{}, {}) is finished where another worker has [{}, {})",
          begin, end, range.begin, range.end);
  if (++range.told < workers_ || begin == end) return;
  const View<T> sum(buffers_[0].data() + begin, {end - begin});
  SumGradients<T>(buffers_, begin, end);
  communicator_.StartSum(std::span<T>(sum.data(), static_cast<size_t>(sum.size())));
}

template <typename T>
void Reduction<T>::End() {
  communicator_.FinishSums();
  workers_ = 0;
}

template class Reduction<float>;
template class Reduction<double>;

}  // namespace qkv::train
