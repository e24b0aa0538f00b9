#include "qkv/explore/fields.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "qkv/core/error.h"

namespace qkv::explore {
namespace {

// The member, or null.
const io::Json* FindField(const io::Json& json, std::string_view key) {
  const auto found = json.find(key);
  return found == json.end() || found->is_null() ? nullptr : &*found;
}

// Long values do not help in a message.
std::string Shown(const io::Json& value) {
  return value.is_structured() ? std::string(value.type_name())
                               : value.dump(-1, ' ', false, io::Json::error_handler_t::replace);
}

int64_t WholeNumber(const io::Json& value, std::string_view key, int64_t low, int64_t high) {
  const bool whole =
      value.is_number_integer() || (value.is_number_float() && std::floor(value.get<double>()) == value.get<double>());
  const double number = value.is_number() ? value.get<double>() : NAN;
  Require(whole && number >= static_cast<double>(low) && number <= static_cast<double>(high),
          "\"{}\": expected a whole number from {} to {}, got {}", key, low, high, Shown(value));
  return static_cast<int64_t>(number);
}

}  // namespace

std::string TextField(const io::Json& json, std::string_view key, std::string_view otherwise) {
  const io::Json* const value = FindField(json, key);
  if (!value) return std::string(otherwise);
  Require(value->is_string(), "\"{}\": expected a text, got {}", key, Shown(*value));
  return value->get<std::string>();
}

std::string TextField(const io::Json& json, std::string_view key) {
  Require(FindField(json, key) != nullptr, "\"{}\" is missing; give a text", key);
  return TextField(json, key, "");
}

double NumberField(const io::Json& json, std::string_view key, double low, double high, double otherwise) {
  const io::Json* const value = FindField(json, key);
  if (!value) return otherwise;
  const double number = value->is_number() ? value->get<double>() : NAN;
  Require(number >= low && number <= high, "\"{}\": expected a number from {} to {}, got {}", key, low, high,
          Shown(*value));
  return number;
}

int64_t IntegerField(const io::Json& json, std::string_view key, int64_t low, int64_t high, int64_t otherwise) {
  const io::Json* const value = FindField(json, key);
  return value ? WholeNumber(*value, key, low, high) : otherwise;
}

int64_t IntegerField(const io::Json& json, std::string_view key, int64_t low, int64_t high) {
  const io::Json* const value = FindField(json, key);
  Require(value != nullptr, "\"{}\" is missing; give a whole number from {} to {}", key, low, high);
  return WholeNumber(*value, key, low, high);
}

std::vector<int64_t> ListField(const io::Json& json, std::string_view key, int64_t count) {
  const io::Json* const value = FindField(json, key);
  std::vector<int64_t> list;
  if (!value || *value == "all") {
    list.resize(static_cast<size_t>(count));
    std::iota(list.begin(), list.end(), 0);
    return list;
  }
  Require(value->is_array(), "\"{}\": expected \"all\" or a list of numbers, got {}", key, Shown(*value));
  for (const io::Json& number : *value) list.push_back(WholeNumber(number, key, 0, count - 1));
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
  return list;
}

}  // namespace qkv::explore
