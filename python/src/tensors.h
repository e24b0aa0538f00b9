// Arrays of anybody's library as views of the engine, by DLPack or the buffer protocol, without copies where the
// element type is one that the engine computes in.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <array>
#include <string_view>

#include "qkv/core/tensor.h"

namespace qkv::python {

namespace nb = nanobind;

using Array = nb::ndarray<nb::ro>;

enum class Element { kFloat16, kBFloat16, kFloat32, kFloat64 };

/// The element type. Throws Error, which says what to do, for an array that is not of floats or not on the CPU. `name`:
/// the argument's.
Element ElementOf(const Array& array, std::string_view name);

/// Throws Error, which names the argument, for an array on another device.
void RequireCpu(const Array& array, std::string_view name);

/// [extents of the array], with its strides. T: the array's element type.
template <typename T>
View<T> AsView(const Array& array, std::string_view name) {
  Require(array.ndim() <= Shape::kMaxRank, "{}: an array of {} axes, expected at most {}", name, array.ndim(),
          Shape::kMaxRank);
  std::array<int64_t, Shape::kMaxRank> extents{};
  typename View<T>::Strides strides{};
  const auto rank = array.ndim();
  for (size_t axis = 0; axis < rank; ++axis) {
    extents[axis] = static_cast<int64_t>(array.shape(axis));
    strides[axis] = array.stride(axis);
  }
  return {static_cast<T*>(const_cast<void*>(array.data())), Shape(std::span<const int64_t>(extents.data(), rank)),
          strides};
}

/// The elements of an array as T, float or double, with a dense last axis: a view of the array where it is that, else
/// of a copy that this object holds.
template <typename T>
class Operand {
 public:
  Operand() = default;
  Operand(const Array& array, std::string_view name);

  View<const T> view() const { return view_; }

 private:
  Tensor<T> copy_;
  View<const T> view_;
};

/// A copy whose elements are neighbours. T: bool or double.
template <typename T>
Tensor<T> Dense(View<const T> from);

/// Elements of `from` rounded to `element`, in this shape of as many: an array of NumPy's, or for any library that
/// reads DLPack. bfloat16 is for the latter alone.
nb::object Export(Tensor<float> from, const Shape& shape, Element element, bool numpy);
nb::object Export(Tensor<double> from, const Shape& shape, Element element, bool numpy);

}  // namespace qkv::python
