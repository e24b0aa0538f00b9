// Integers of a golden, such as the ids of tokens.
#pragma once

#include <cstdint>
#include <cstring>

#include "qkv/core/tensor.h"
#include "qkv/io/tensor_set.h"

namespace qkv {

/// The elements of an I64 tensor.
template <typename T = int64_t>
Tensor<T> ReadIntegers(const io::StoredTensor& stored) {
  Require(stored.dtype == DType::kI64, "golden: expected integers of 64 bits in {}", stored.name);
  auto tensor = Tensor<T>::Uninitialised(stored.shape);
  for (int64_t i = 0; i < tensor.size(); ++i) {
    int64_t value;
    std::memcpy(&value, stored.bytes.data() + static_cast<size_t>(i) * sizeof(value), sizeof(value));
    tensor[i] = static_cast<T>(value);
  }
  return tensor;
}

}  // namespace qkv
