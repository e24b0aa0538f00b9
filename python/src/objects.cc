#include "python/src/objects.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "qkv/core/dtype.h"

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

nb::str InKeywords(const std::string& message) {
  return nb::borrow<nb::str>(nb::module_::import_("qkv._wording").attr("in_keywords")(nb::str(message.c_str())));
}

std::array<size_t, Shape::kMaxRank> ExtentsOf(const Shape& shape) {
  std::array<size_t, Shape::kMaxRank> extents{};
  std::ranges::copy(shape.extents(), extents.begin());
  return extents;
}

template <typename T>
nb::capsule OwnerOf(Tensor<T> tensor) {
  return {new Tensor<T>(std::move(tensor)), [](void* owned) noexcept { delete static_cast<Tensor<T>*>(owned); }};
}

template <typename T>
nb::object ToArray(Tensor<T> tensor) {
  const auto extents = ExtentsOf(tensor.shape());
  const auto rank = static_cast<size_t>(tensor.rank());
  T* const data = tensor.data();
  return nb::cast(nb::ndarray<nb::numpy, T>(data, rank, extents.data(), OwnerOf(std::move(tensor))));
}

nb::dict ToArrays(app::Captured captured) {
  nb::dict arrays;
  for (auto& [name, tensor] : captured) arrays[nb::str(name.c_str())] = ToArray(std::move(tensor));
  return arrays;
}

nb::object ViewOf(const Tensor<float>& tensor, nb::handle owner) {
  const auto extents = ExtentsOf(tensor.shape());
  const auto rank = static_cast<size_t>(tensor.rank());
  return nb::cast(nb::ndarray<nb::numpy, const float>(tensor.data(), rank, extents.data(), owner));
}

template nb::capsule OwnerOf(Tensor<float>);
template nb::capsule OwnerOf(Tensor<double>);
template nb::capsule OwnerOf(Tensor<Half>);
template nb::capsule OwnerOf(Tensor<BFloat16>);
template nb::object ToArray(Tensor<float>);
template nb::object ToArray(Tensor<double>);
template nb::object ToArray(Tensor<int32_t>);
template nb::object ToArray(Tensor<int64_t>);
template nb::object ToArray(Tensor<uint8_t>);

}  // namespace qkv::python
