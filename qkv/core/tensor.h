// Shapes, strided views and owning, aligned tensors. Arithmetic is in simd.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <new>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

#include "qkv/core/error.h"

namespace qkv {

// A cache line, and the widest vector of all supported instruction sets.
inline constexpr size_t kAlignment = 64;

/// Up to six extents, outermost first. A scalar has rank 0 and one element.
class Shape {
 public:
  static constexpr int kMaxRank = 6;  // axes at most

  Shape() = default;
  /// Throws Error when there are more than kMaxRank extents, one is negative, or their product overflows.
  Shape(std::initializer_list<int64_t> extents) : Shape(std::span<const int64_t>(extents.begin(), extents.size())) {}
  explicit Shape(std::span<const int64_t> extents);  // likewise

  int rank() const { return rank_; }                             // number of axes
  int64_t operator[](int axis) const { return extents_[axis]; }  // extent of an axis
  int64_t size() const { return size_; }                         // number of elements
  std::span<const int64_t> extents() const { return {extents_.data(), static_cast<size_t>(rank_)}; }  // of all axes
  bool operator==(const Shape& other) const {  // same rank and extents
    return rank_ == other.rank_ && std::equal(extents_.begin(), extents_.begin() + rank_, other.extents_.begin());
  }

 private:
  std::array<int64_t, kMaxRank> extents_{};
  int64_t size_ = 1;
  int rank_ = 0;
};

}  // namespace qkv

/// Formats as "[2, 197, 768]", padded like a string. Checks take a shape as it is, so formatting costs time only on
/// failure.
template <>
struct fmt::formatter<qkv::Shape> : fmt::formatter<std::string_view> {
  fmt::format_context::iterator format(const qkv::Shape& shape, fmt::format_context& context) const;
};

namespace qkv {

/// A non-owning view of elements: pointer, shape and strides (in elements).
template <typename T>
class View {
 public:
  using Strides = std::array<int64_t, Shape::kMaxRank>;  // of each axis, in elements
  View() = default;
  /// A dense, row-major view.
  View(T* data, const Shape& shape) : data_(data), shape_(shape) {
    int64_t stride = 1;
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      strides_[axis] = stride;
      stride *= shape[axis];
    }
  }
  /// A strided view.
  View(T* data, const Shape& shape, const Strides& strides) : data_(data), shape_(shape), strides_(strides) {}
  /// A view of mutable elements converts to a view of constant ones.
  template <typename U>
  requires(std::is_same_v<T, const U>) View(const View<U>& other)
      : data_(other.data()), shape_(other.shape()), strides_(other.strides()) {}

  T* data() const { return data_; }                          // the first element
  const Shape& shape() const { return shape_; }              // extents, outermost first
  const Strides& strides() const { return strides_; }        // in elements
  int rank() const { return shape_.rank(); }                 // number of axes
  int64_t dim(int axis) const { return shape_[axis]; }       // extent of an axis
  int64_t stride(int axis) const { return strides_[axis]; }  // of an axis, in elements
  int64_t size() const { return shape_.size(); }             // number of elements
  bool empty() const { return data_ == nullptr; }            // refers to nothing
  bool dense() const {                                       // row-major without gaps
    int64_t expected = 1;
    for (int axis = rank() - 1; axis >= 0; --axis) {
      if (shape_[axis] != 1 && strides_[axis] != expected) return false;
      expected *= shape_[axis];
    }
    return true;
  }

  /// The element at the given indices; fewer indices than axes give the start of that slice.
  template <typename... Index>
  T* at(Index... index) const {
    static_assert(sizeof...(index) <= Shape::kMaxRank);
    int axis = 0;
    int64_t offset = 0;
    ((offset += static_cast<int64_t>(index) * strides_[axis++]), ...);
    return data_ + offset;
  }
  /// Pointer to row r of a matrix.
  T* row(int64_t r) const { return data_ + r * strides_[0]; }

  /// The view with its first axis fixed at `index`.
  View operator[](int64_t index) const {
    Strides strides{};
    for (int axis = 1; axis < rank(); ++axis) strides[axis - 1] = strides_[axis];
    return View(at(index), Shape(shape_.extents().subspan(1)), strides);
  }
  /// Elements [begin, end) along an axis.
  View slice(int axis, int64_t begin, int64_t end) const {
    std::array<int64_t, Shape::kMaxRank> extents{};
    for (int a = 0; a < rank(); ++a) extents[a] = shape_[a];
    extents[axis] = end - begin;
    return View(data_ + begin * strides_[axis], Shape(std::span<const int64_t>(extents.data(), rank())), strides_);
  }
  /// The same elements in another shape. Throws Error when the view is not dense or the sizes differ.
  View reshape(const Shape& shape) const {
    Require(dense() && shape.size() == size(), "reshape: cannot see {} as {}{}", shape_, shape,
            dense() ? "" : " (the view is strided)");
    return View(data_, shape);
  }

 private:
  T* data_ = nullptr;
  Shape shape_{0};
  Strides strides_{};
};

namespace internal {
/// Requests large pages for a block of at least 2 MiB, except its ends.
void PreferHugePages(void* memory, size_t bytes);
}  // namespace internal

/// Owns dense, 64-byte aligned elements of a plain type, or shares their owner. Movable; copies are explicit (Clone).
template <typename T>
class Tensor {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  Tensor() = default;
  /// Zero-initialised. Throws Error when the allocation fails.
  explicit Tensor(const Shape& shape) : Tensor(Uninitialised(shape)) {
    if (shape.size() > 0)
      std::memset(static_cast<void*>(data_.get()), 0, sizeof(T) * static_cast<size_t>(shape.size()));
  }
  static Tensor Uninitialised(const Shape& shape) {  // contents undefined; throws Error when the allocation fails
    Require(static_cast<uint64_t>(shape.size()) <= PTRDIFF_MAX / sizeof(T), "tensor: {} is too large to address",
            shape);
    const size_t bytes = sizeof(T) * static_cast<size_t>(shape.size());
    void* memory = ::operator new(bytes, std::align_val_t(kAlignment), std::nothrow);
    Require(memory != nullptr, "tensor: no memory for {} ({} bytes)", shape, bytes);
    internal::PreferHugePages(memory, bytes);
    Tensor tensor;
    tensor.data_.reset(static_cast<T*>(memory));
    tensor.shape_ = shape;
    tensor.capacity_ = shape.size();
    return tensor;
  }
  /// Elements in memory of `owner`, which lives at least as long as the tensor. Do not write if that memory is mapped
  /// read-only. Throws Error when the elements are not 64-byte aligned.
  static Tensor Borrowed(const T* data, const Shape& shape, std::shared_ptr<const void> owner) {
    Require(reinterpret_cast<uintptr_t>(data) % kAlignment == 0 && owner != nullptr,
            "tensor: borrowed memory must be aligned to {} bytes and have an owner", kAlignment);
    Tensor tensor;
    tensor.data_ = {const_cast<T*>(data), Free{std::move(owner)}};
    tensor.shape_ = shape;
    return tensor;  // of capacity 0, so Reuse never returns borrowed memory
  }
  /// Takes another shape; the contents become undefined. Memory that is large enough is kept. Throws Error when an
  /// allocation fails; the tensor is empty then.
  void Reuse(const Shape& shape) {
    if (empty() || shape.size() > capacity_) {
      *this = Tensor();
      *this = Uninitialised(shape);
    }
    shape_ = shape;
  }
  Tensor Clone() const {  // a copy with memory of its own
    Tensor copy = Uninitialised(shape_);
    if (size() > 0) std::memcpy(static_cast<void*>(copy.data()), data(), sizeof(T) * static_cast<size_t>(size()));
    return copy;
  }

  T* data() { return data_.get(); }                                                  // the first element
  const T* data() const { return data_.get(); }                                      // the first element
  const Shape& shape() const { return shape_; }                                      // extents, outermost first
  int rank() const { return shape_.rank(); }                                         // number of axes
  int64_t dim(int axis) const { return shape_[axis]; }                               // extent of an axis
  int64_t size() const { return shape_.size(); }                                     // number of elements
  bool empty() const { return data_ == nullptr; }                                    // without memory
  T& operator[](int64_t i) { return data_[i]; }                                      // element i in row-major order
  const T& operator[](int64_t i) const { return data_[i]; }                          // element i in row-major order
  std::span<T> span() { return {data(), static_cast<size_t>(size())}; }              // all elements
  std::span<const T> span() const { return {data(), static_cast<size_t>(size())}; }  // all elements

  View<T> view() { return View<T>(data(), shape_); }                    // valid while the tensor keeps its memory
  View<const T> view() const { return View<const T>(data(), shape_); }  // likewise
  operator View<T>() { return view(); }                                 // a tensor is passed where a view is expected
  operator View<const T>() const { return view(); }                     // likewise

 private:
  struct Free {
    std::shared_ptr<const void> owner;  // of borrowed elements
    void operator()(T* data) const {
      if (!owner) ::operator delete(data, std::align_val_t(kAlignment));
    }
  };
  std::unique_ptr<T[], Free> data_;
  Shape shape_{0};
  int64_t capacity_ = 0;
};

}  // namespace qkv
