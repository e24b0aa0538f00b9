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
      return nb::str(text.data(), text.size());
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
  if (nb::isinstance<nb::int_>(value)) return nb::cast<int64_t>(value);
  if (nb::isinstance<nb::float_>(value)) return nb::cast<double>(value);
  if (nb::isinstance<nb::str>(value)) return nb::borrow<nb::str>(value).c_str();
  if (nb::isinstance<nb::dict>(value)) {
    io::Json object = io::Json::object();
    for (const auto& [key, item] : nb::borrow<nb::dict>(value)) object[nb::str(key).c_str()] = ToJson(item, what);
    return object;
  }
  if (nb::isinstance<nb::list>(value) || nb::isinstance<nb::tuple>(value)) {
    io::Json list = io::Json::array();
    for (const nb::handle item : nb::iter(value)) list.push_back(ToJson(item, what));
    return list;
  }
  const nb::str type = nb::str(nb::handle(value.type()).attr("__name__"));
  throw nb::type_error(FormatShown("{}: expected a number, text, list or dict, got {}", what, type.c_str()).c_str());
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
