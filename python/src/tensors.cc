#include "python/src/tensors.h"

#include <type_traits>
#include <utility>

#include "python/src/objects.h"
#include "qkv/core/dtype.h"

namespace qkv::python {
namespace {

std::string_view DeviceName(int type) {
  switch (type) {
    case nb::device::cuda::value:
      return "CUDA";
    case nb::device::rocm::value:
      return "ROCm";
    case nb::device::metal::value:
      return "Metal";
    case nb::device::oneapi::value:
      return "oneAPI";
    default:
      return "another device";
  }
}

template <typename T, typename From>
T As(From value) {
  if constexpr (std::is_same_v<From, Half> || std::is_same_v<From, BFloat16>) {
    return static_cast<T>(ToFloat(value));
  } else {
    return static_cast<T>(value);
  }
}

// Copies along the last axis; recursion over the others.
template <typename T, typename From>
T* CopyTo(View<const From> from, T* out) {
  if (from.rank() == 0) {
    *out = As<T>(*from.data());
    return out + 1;
  }
  if (from.rank() == 1) {
    for (int64_t i = 0; i < from.dim(0); ++i) *out++ = As<T>(*from.at(i));
    return out;
  }
  for (int64_t i = 0; i < from.dim(0); ++i) out = CopyTo(from[i], out);
  return out;
}

template <typename T, typename From>
Tensor<T> CopyOf(View<const From> from) {
  auto copy = Tensor<T>::Uninitialised(from.shape());
  if (copy.size() > 0) CopyTo(from, copy.data());
  return copy;
}

template <typename T>
nb::object Hand(Tensor<T> tensor, const Shape& as, nb::dlpack::dtype dtype, bool numpy) {
  const auto extents = ExtentsOf(as);
  const auto rank = static_cast<size_t>(as.rank());
  T* const data = tensor.data();
  const nb::capsule owner = OwnerOf(std::move(tensor));
  if (numpy) return nb::cast(nb::ndarray<nb::numpy>(data, rank, extents.data(), owner, nullptr, dtype));
  return nb::cast(nb::ndarray<nb::array_api>(data, rank, extents.data(), owner, nullptr, dtype));
}

template <typename To, typename T, typename Round>
Tensor<To> Rounded(const Tensor<T>& from, Round round) {
  auto rounded = Tensor<To>::Uninitialised(from.shape());
  for (int64_t i = 0; i < from.size(); ++i) rounded[i] = round(static_cast<float>(from[i]));
  return rounded;
}

template <typename T>
nb::object ExportAs(Tensor<T> from, const Shape& shape, Element element, bool numpy) {
  constexpr auto kFloat = static_cast<uint8_t>(nb::dlpack::dtype_code::Float);
  constexpr auto kBfloat = static_cast<uint8_t>(nb::dlpack::dtype_code::Bfloat);
  switch (element) {
    case Element::kFloat16:
      return Hand(Rounded<Half>(from, ToHalf), shape, {kFloat, 16, 1}, numpy);
    case Element::kBFloat16:
      return Hand(Rounded<BFloat16>(from, ToBFloat16), shape, {kBfloat, 16, 1}, numpy);
    default:
      return Hand(std::move(from), shape, {kFloat, 8 * sizeof(T), 1}, numpy);
  }
}

}  // namespace

void RequireCpu(const Array& array, std::string_view name) {
  Require(array.device_type() == nb::device::cpu::value,
          "{} is on {}; qkv computes on the CPU: give {}.cpu() (PyTorch) or numpy.asarray({})", name,
          DeviceName(array.device_type()), name, name);
}

Element ElementOf(const Array& array, std::string_view name) {
  RequireCpu(array, name);
  const nb::dlpack::dtype dtype = array.dtype();
  const auto code = static_cast<nb::dlpack::dtype_code>(dtype.code);
  if (code == nb::dlpack::dtype_code::Bfloat && dtype.bits == 16) return Element::kBFloat16;
  if (code == nb::dlpack::dtype_code::Float) {
    if (dtype.bits == 16) return Element::kFloat16;
    if (dtype.bits == 32) return Element::kFloat32;
    if (dtype.bits == 64) return Element::kFloat64;
  }
  Fail("{}: expected float32, float64, float16 or bfloat16, got a type of {} bits that is none of them", name,
       dtype.bits);
}

template <typename T>
Operand<T>::Operand(const Array& array, std::string_view name) {
  const auto take = [&]<typename From>(View<From> from) {
    using Stored = std::remove_const_t<From>;
    if constexpr (std::is_same_v<Stored, T>) {
      const int last = from.rank() - 1;
      if (last < 0 || from.stride(last) == 1 || from.dim(last) <= 1) {
        view_ = from;
        return;
      }
    }
    copy_ = CopyOf<T, Stored>(from);
    view_ = copy_;
  };
  switch (ElementOf(array, name)) {
    case Element::kFloat16:
      take(AsView<const Half>(array, name));
      break;
    case Element::kBFloat16:
      take(AsView<const BFloat16>(array, name));
      break;
    case Element::kFloat32:
      take(AsView<const float>(array, name));
      break;
    case Element::kFloat64:
      take(AsView<const double>(array, name));
      break;
  }
}

template <typename T>
Tensor<T> Dense(View<const T> from) {
  return CopyOf<T>(from);
}

template Tensor<bool> Dense(View<const bool>);
template Tensor<double> Dense(View<const double>);

template class Operand<float>;
template class Operand<double>;

nb::object Export(Tensor<float> from, const Shape& shape, Element element, bool numpy) {
  return ExportAs(std::move(from), shape, element, numpy);
}
nb::object Export(Tensor<double> from, const Shape& shape, Element element, bool numpy) {
  return ExportAs(std::move(from), shape, element, numpy);
}

}  // namespace qkv::python
