#include "qkv/model/config/fields.h"

#include <cmath>

#include "qkv/core/error.h"

namespace qkv::model {
namespace {

const io::Json kEmpty = io::Json::object();

// Far above any value of a configuration; sums of a few such numbers do not overflow.
constexpr double kMaxNumber = 0x1p40;

int64_t AsInt(const io::Json& value, const std::string& where, std::string_view key) {
  // Python writes 4.0 after dividing an int: accepted if it is whole.
  if (value.is_number_float()) {
    const double number = value.get<double>();
    Require(number == std::floor(number), "{}: \"{}\" is {}, expected a whole number", where, key, number);
  }
  Require(value.is_number(), "{}: \"{}\" is {}, expected a whole number", where, key, value.type_name());
  const auto number = value.get<double>();
  Require(std::abs(number) <= kMaxNumber, "{}: \"{}\" is {}, which is out of all proportion", where, key, number);
  return static_cast<int64_t>(number);
}

}  // namespace

Fields::Fields(const io::Json& object, std::string where) : object_(&object), where_(std::move(where)) {
  Require(object.is_object(), "{}: expected a JSON object, got {}", where_, object.type_name());
}

const io::Json* Fields::Find(std::string_view key) const {
  const auto found = object_->find(key);
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

bool Fields::Has(std::string_view key) const { return Find(key) != nullptr; }

int64_t Fields::Int(std::string_view key, int64_t otherwise) const {
  const io::Json* value = Find(key);
  return value ? AsInt(*value, where_, key) : otherwise;
}

int64_t Fields::RequiredInt(std::string_view key) const {
  Require(Has(key), "{}: \"{}\" is missing", where_, key);
  return Int(key, 0);
}

double Fields::Number(std::string_view key, double otherwise) const {
  const io::Json* value = Find(key);
  if (!value) return otherwise;
  Require(value->is_number(), "{}: \"{}\" is {}, expected a number", where_, key, value->type_name());
  const auto number = value->get<double>();
  Require(std::abs(number) <= kMaxNumber, "{}: \"{}\" is {}, which is out of all proportion", where_, key, number);
  return number;
}

bool Fields::Bool(std::string_view key, bool otherwise) const {
  const io::Json* value = Find(key);
  if (!value) return otherwise;
  Require(value->is_boolean(), "{}: \"{}\" is {}, expected true or false", where_, key, value->type_name());
  return value->get<bool>();
}

std::string Fields::String(std::string_view key, const std::string& otherwise) const {
  const io::Json* value = Find(key);
  if (!value) return otherwise;
  Require(value->is_string(), "{}: \"{}\" is {}, expected a string", where_, key, value->type_name());
  return value->get<std::string>();
}

std::pair<int64_t, int64_t> Fields::Size(std::string_view key, std::pair<int64_t, int64_t> otherwise) const {
  const io::Json* value = Find(key);
  if (!value) return otherwise;
  if (value->is_array()) {
    Require(value->size() == 2, "{}: \"{}\" has {} entries, expected height and width", where_, key, value->size());
    return {AsInt((*value)[0], where_, key), AsInt((*value)[1], where_, key)};
  }
  const int64_t side = AsInt(*value, where_, key);
  return {side, side};
}

Fields Fields::Object(std::string_view key) const {
  const io::Json* value = Find(key);
  return Fields(value ? *value : kEmpty, fmt::format("{}: {}", where_, key));
}

}  // namespace qkv::model
