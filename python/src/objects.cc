#include "python/src/objects.h"

#include <array>
#include <cstdint>
#include <memory>
#include <utility>

namespace qkv::python {

nb::object ToPython(const io::Json& json) {
  switch (json.type()) {
    case io::Json::value_t::object: {
      nb::dict dict;
      for (const auto& [key, value] : json.items()) dict[nb::str(key.data(), key.size())] = ToPython(value);
      return dict;
    }
    case io::Json::value_t::array: {
      nb::list list;
      for (const io::Json& value : json) list.append(ToPython(value));
      return list;
    }
    case io::Json::value_t::string: {
      const auto& text = json.get_ref<const std::string&>();
      return ToPathName(text);
    }
    case io::Json::value_t::boolean:
      return nb::bool_(json.get<bool>());
    case io::Json::value_t::number_integer:
      return nb::int_(json.get<int64_t>());
    case io::Json::value_t::number_unsigned:
      return nb::int_(json.get<uint64_t>());
    case io::Json::value_t::number_float:
      return nb::float_(json.get<double>());
    default:
      return nb::none();
  }
}

io::Json ToJson(nb::handle value, const char* what) {
  if (value.is_none()) return nullptr;
  if (nb::isinstance<nb::bool_>(value)) return nb::cast<bool>(value);
  if (nb::isinstance<nb::int_>(value)) return ValueOf<int64_t>(value, what, "a number of 64 bits");
  if (nb::isinstance<nb::float_>(value)) return nb::cast<double>(value);
  if (nb::isinstance<nb::str>(value)) return PathOf(value);
  if (nb::isinstance<nb::dict>(value)) {
    io::Json object = io::Json::object();
    for (const auto& [key, item] : nb::borrow<nb::dict>(value)) object[PathOf(nb::str(key))] = ToJson(item, what);
    return object;
  }
  if (nb::isinstance<nb::list>(value) || nb::isinstance<nb::tuple>(value)) {
    io::Json list = io::Json::array();
    for (const nb::handle item : nb::iter(value)) list.push_back(ToJson(item, what));
    return list;
  }
  ThrowTypeError(value, what, "a number, text, list or dict");
}

void ThrowTypeError(nb::handle value, const char* what, const char* expected) {
  throw nb::type_error(FormatShown("{}: expected {}, got {}", what, expected, PathOf(nb::repr(value))).c_str());
}

std::string PathOf(nb::handle name) {
  const auto bytes = nb::steal<nb::bytes>(PyUnicode_EncodeFSDefault(name.ptr()));
  if (!bytes.is_valid()) nb::raise_python_error();
  return {bytes.c_str(), bytes.size()};
}

nb::str ToPathName(const std::string& path) {
  const auto name = nb::steal<nb::str>(PyUnicode_DecodeFSDefaultAndSize(path.data(), std::ssize(path)));
  if (!name.is_valid()) nb::raise_python_error();
  return name;
}

template <typename T>
nb::object ToArray(Tensor<T> tensor) {
  auto kept = std::make_unique<Tensor<T>>(std::move(tensor));
  std::array<size_t, Shape::kMaxRank> shape{};
  const int rank = kept->rank();
  for (int axis = 0; axis < rank; ++axis) shape[axis] = static_cast<size_t>(kept->dim(axis));
  T* const data = kept->data();
  const nb::capsule owner(kept.release(), [](void* tensor) noexcept { delete static_cast<Tensor<T>*>(tensor); });
  return nb::cast(nb::ndarray<nb::numpy, T>(data, static_cast<size_t>(rank), shape.data(), owner));
}

nb::object ViewOf(const Tensor<float>& tensor, nb::handle owner) {
  std::array<size_t, Shape::kMaxRank> shape{};
  const int rank = tensor.rank();
  for (int axis = 0; axis < rank; ++axis) shape[axis] = static_cast<size_t>(tensor.dim(axis));
  return nb::cast(nb::ndarray<nb::numpy, const float>(tensor.data(), static_cast<size_t>(rank), shape.data(), owner));
}

template nb::object ToArray(Tensor<float>);
template nb::object ToArray(Tensor<int32_t>);
template nb::object ToArray(Tensor<int64_t>);
template nb::object ToArray(Tensor<uint8_t>);

}  // namespace qkv::python
