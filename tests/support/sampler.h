// Random test data from a seed, the same on every machine.
#pragma once

#include "qkv/core/rng.h"
#include "qkv/core/tensor.h"

namespace qkv {

class Sampler {
 public:
  explicit Sampler(uint64_t seed) : rng_(seed) {}

  template <typename T>
  Tensor<T> Normal(const Shape& shape, double mean = 0, double stddev = 1) {
    auto tensor = Tensor<T>::Uninitialised(shape);
    for (T& x : tensor.span()) x = static_cast<T>(mean + stddev * rng_.Normal());
    return tensor;
  }

  Rng& rng() { return rng_; }

 private:
  Rng rng_;
};

/// The same numbers converted to another type.
template <typename To, typename From>
Tensor<To> Cast(const Tensor<From>& from) {
  auto to = Tensor<To>::Uninitialised(from.shape());
  for (int64_t i = 0; i < from.size(); ++i) to[i] = static_cast<To>(from[i]);
  return to;
}

}  // namespace qkv
