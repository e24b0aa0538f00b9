// Typed reading of configuration fields. A wrong type is an error that names the key; null counts as absent.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "qkv/io/json.h"

namespace qkv::model {

class Fields {
 public:
  /// where: prefix of error messages, such as "config.json". Throws Error unless `object` is a JSON object.
  Fields(const io::Json& object, std::string where);

  bool Has(std::string_view key) const;  // present, and not null
  int64_t Int(std::string_view key, int64_t otherwise) const;
  double Number(std::string_view key, double otherwise) const;
  bool Bool(std::string_view key, bool otherwise) const;
  std::string String(std::string_view key, const std::string& otherwise) const;
  /// A number, or two as [height, width].
  std::pair<int64_t, int64_t> Size(std::string_view key, std::pair<int64_t, int64_t> otherwise) const;
  /// Throws Error if the key is missing.
  int64_t RequiredInt(std::string_view key) const;
  /// The object under this key, or an empty one.
  Fields Object(std::string_view key) const;

  const io::Json& json() const { return *object_; }
  const std::string& where() const { return where_; }

 private:
  const io::Json* Find(std::string_view key) const;

  const io::Json* object_;
  std::string where_;
};

}  // namespace qkv::model
