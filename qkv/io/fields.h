// Typed reading of a JSON object: a setting of the wrong type is an error that names it, and an unread setting is not
// passed over in silence. Readers read what they use, and declare the keys that they know and need not read.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "qkv/io/json.h"

namespace qkv::io {

/// A key that a reader knows but does not read: because another key switches it off, or it does not matter here.
struct KnownKey {
  std::string_view key;  // of this object and those within; "rope_parameters.beta_fast": of that one alone
  /// Values with which the answer is what it would be without the key, as JSON, separated by '|': "false|0". Empty: the
  /// key has no effect on the answer. null is always such a value.
  std::string_view neutral = {};
  std::string_view advice = {};  // in the error for other values: what to do
};

/// A key of a file, and what was done with it.
struct Setting {
  enum class Use {
    kUsed,
    kNeutral,   // not done here, and the value asks for nothing
    kNoEffect,  // says nothing about the answer: names, versions, training
    kUnknown,
  };
  std::string file, key, value;  // value: JSON, cut if it is long
  Use use = Use::kUsed;
  bool operator==(const Setting&) const = default;
};

/// "used", "neutral", "of no effect", "unknown"
std::string_view Name(Setting::Use use);
/// Adds the settings of one file to those of others.
void Append(std::vector<Setting> more, std::vector<Setting>* settings);
/// Unknown keys, in words for people; empty if there are none.
std::string DescribeUnknown(std::span<const Setting> settings);
/// Throws Error that names them, if there are any.
void RequireKnown(std::span<const Setting> settings);

/// An object of a file. Copies, and objects within it, remember together which keys were read. null counts as absent.
class Fields {
 public:
  /// where: prefix of error messages, such as "config.json". `object` outlives this. Throws Error unless it is a JSON
  /// object.
  Fields(const Json& object, std::string where);

  bool Has(std::string_view key) const;  // present, and not null
  int64_t Int(std::string_view key, int64_t otherwise) const;
  double Number(std::string_view key, double otherwise) const;
  bool Bool(std::string_view key, bool otherwise) const;
  std::string String(std::string_view key, const std::string& otherwise) const;
  /// A number, or two as [height, width].
  std::pair<int64_t, int64_t> Size(std::string_view key, std::pair<int64_t, int64_t> otherwise) const;
  /// These throw Error if the key is missing.
  int64_t RequiredInt(std::string_view key) const;
  std::string RequiredString(std::string_view key) const;
  const Json& List(std::string_view key) const;
  const Json& Required(std::string_view key) const;
  /// The object under this key, or an empty one.
  Fields Object(std::string_view key) const;
  /// One of the objects in the list or the object under this key. They share the record of read keys, and `Settle`
  /// lists each key once. Throws Error unless it is an object.
  Fields Item(std::string_view key, const Json& value) const;
  /// Whatever is under this key; nullptr if it is absent or null.
  const Json* Find(std::string_view key) const;
  /// The same; null if it is absent.
  const Json& Value(std::string_view key) const;
  /// The same file, some of whose values a reader has replaced. `object` outlives the result.
  Fields With(const Json& object) const;

  const Json& json() const { return *object_; }
  const std::string& where() const;

  /// Call it once the object has been read: returns every key. Throws Error that names a known key with a value that
  /// would have an effect.
  std::vector<Setting> Settle(std::initializer_list<std::span<const KnownKey>> known) const;

 private:
  struct Record;
  Fields(const Json& object, std::shared_ptr<Record> record);
  std::shared_ptr<Record> Within(std::string_view key) const;

  const Json* object_;
  std::shared_ptr<Record> record_;
};

}  // namespace qkv::io
