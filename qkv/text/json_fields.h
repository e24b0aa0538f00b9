// Fields of a JSON object, with errors that name them.
#pragma once

#include <limits>
#include <string>
#include <string_view>

#include "qkv/core/error.h"
#include "qkv/io/json.h"

namespace qkv::text {

/// An object of a file. Getters without a default throw Error if the field is missing; null counts as missing.
class JsonFields {
 public:
  /// Keeps a reference to `json`. Throws Error if it is no object.
  JsonFields(const io::Json& json, std::string where) : json_(&json), where_(std::move(where)) {
    Require(json.is_object(), "{}: expected an object, got {}", where_, json.type_name());
  }

  std::string_view where() const { return where_; }

  const io::Json* Find(std::string_view key) const {
    const auto found = json_->find(key);
    return found == json_->end() || found->is_null() ? nullptr : &*found;
  }
  const io::Json& Get(std::string_view key) const {
    const io::Json* value = Find(key);
    Require(value != nullptr, "{}: expected a field \"{}\"", where_, key);
    return *value;
  }
  std::string Text(std::string_view key) const {
    const io::Json& value = Get(key);
    Require(value.is_string(), "{}: expected a string \"{}\", got {}", where_, key, value.dump().substr(0, 100));
    return value.get<std::string>();
  }
  std::string Text(std::string_view key, std::string_view otherwise) const {
    return Find(key) == nullptr ? std::string(otherwise) : Text(key);
  }
  bool Flag(std::string_view key, bool otherwise) const {
    const io::Json* value = Find(key);
    if (value == nullptr) return otherwise;
    Require(value->is_boolean(), "{}: expected true or false for \"{}\", got {}", where_, key,
            value->dump().substr(0, 100));
    return value->get<bool>();
  }
  int64_t Number(std::string_view key) const {
    const io::Json& value = Get(key);
    Require(value.is_number_integer() && (!value.is_number_unsigned() || value.get<uint64_t>() < (uint64_t{1} << 62)),
            "{}: expected a whole number \"{}\", got {}", where_, key, value.dump().substr(0, 100));
    return value.get<int64_t>();
  }
  int64_t Number(std::string_view key, int64_t otherwise) const {
    return Find(key) == nullptr ? otherwise : Number(key);
  }
  int32_t Id(std::string_view key, int32_t otherwise) const {
    const int64_t id = Number(key, otherwise);
    Require(id >= 0 && id < std::numeric_limits<int32_t>::max(), "{}: expected an id from 0 below 2³¹, got {}", where_,
            id);
    return static_cast<int32_t>(id);
  }
  const io::Json& List(std::string_view key) const {
    const io::Json& value = Get(key);
    Require(value.is_array(), "{}: expected a list \"{}\", got {}", where_, key, value.type_name());
    return value;
  }
  const io::Json& Object(std::string_view key) const {
    const io::Json& value = Get(key);
    Require(value.is_object(), "{}: expected an object \"{}\", got {}", where_, key, value.type_name());
    return value;
  }

 private:
  const io::Json* json_;
  std::string where_;
};

}  // namespace qkv::text
