#include "qkv/io/fields.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>

#include "qkv/core/error.h"

namespace qkv::io {
namespace {

const Json kEmpty = Json::object(), kNull;

constexpr size_t kShown = 60;  // bytes of a value
constexpr size_t kNamed = 20;  // keys that nobody knows

// Far above any value of a configuration; sums of a few such numbers do not overflow.
constexpr double kMaxNumber = 0x1p40;

std::string Shown(const Json& value) {
  // A list of words may be as long as the file.
  std::string text = value.is_array() && value.size() > kShown ? fmt::format("[{} values]", value.size())
                     : value.is_object() && value.size() > kShown
                         ? fmt::format("{{{} values}}", value.size())
                         : value.dump(-1, ' ', true, Json::error_handler_t::replace);
  return text.size() > kShown ? text.substr(0, kShown) + "…" : text;
}

bool IsNeutral(const Json& value, std::string_view neutral) {
  if (value.is_null()) return true;
  while (!neutral.empty()) {
    const size_t end = std::min(neutral.find('|'), neutral.size());
    if (Json::parse(neutral.substr(0, end)) == value) return true;
    neutral.remove_prefix(std::min(end + 1, neutral.size()));
  }
  return false;
}

// "false|0" as "false or 0".
std::string Alternatives(std::string_view neutral) {
  std::string text;
  for (const char c : neutral) c == '|' ? text += " or " : text += c;
  return text;
}

const KnownKey* FindKnown(std::initializer_list<std::span<const KnownKey>> known, std::string_view key) {
  // An object within has the keys of one of its own file, too.
  const std::string_view last = key.substr(key.rfind('.') + 1);
  for (const std::string_view name : {key, last}) {
    for (const std::span<const KnownKey> rows : known) {
      const auto found = std::ranges::find(rows, name, &KnownKey::key);
      if (found != rows.end()) return &*found;
    }
  }
  return nullptr;
}

int64_t AsInt(const Json& value, const std::string& where, std::string_view key) {
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

std::string_view Name(Setting::Use use) {
  constexpr std::string_view kNames[] = {"used", "neutral", "of no effect", "unknown"};
  return kNames[static_cast<size_t>(use)];
}

void Append(std::vector<Setting> more, std::vector<Setting>* settings) {
  settings->insert(settings->end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

namespace {

// "a" of config.json, …; empty if all are known.
std::string UnknownKeys(std::span<const Setting> settings) {
  std::vector<std::string> names;
  size_t count = 0;
  for (const Setting& setting : settings) {
    if (setting.use != Setting::Use::kUnknown || ++count > kNamed) continue;
    names.push_back(fmt::format("{} of {}", Quoted(setting.key), setting.file));
  }
  return fmt::format("{}{}", fmt::join(names, ", "), count > kNamed ? fmt::format(" and {} more", count - kNamed) : "");
}

}  // namespace

std::string DescribeUnknown(std::span<const Setting> settings) {
  const std::string keys = UnknownKeys(settings);
  return keys.empty() ? "" : "settings that qkv does not know are passed over: " + keys;
}

void RequireKnown(std::span<const Setting> settings) {
  const std::string keys = UnknownKeys(settings);
  Require(keys.empty(), "settings that qkv does not know: {}; take them out, or leave out --strict", keys);
}

// Keys that were read, with their paths.
struct Fields::Record {
  std::set<std::string, std::less<>> read;
};

Fields::Fields(const Json& object, std::string where)
    : object_(&object), where_(std::move(where)), record_(std::make_shared<Record>()) {
  Require(object.is_object(), "{}: expected a JSON object, got {}", where_, object.type_name());
}

const Json* Fields::Find(std::string_view key) const {
  record_->read.insert(path_ + std::string(key));
  const auto found = object_->find(key);
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

bool Fields::Has(std::string_view key) const { return Find(key) != nullptr; }

int64_t Fields::Int(std::string_view key, int64_t otherwise) const {
  const Json* value = Find(key);
  return value ? AsInt(*value, where_, key) : otherwise;
}

int64_t Fields::RequiredInt(std::string_view key) const {
  Require(Has(key), "{}: \"{}\" is missing", where_, key);
  return Int(key, 0);
}

double Fields::Number(std::string_view key, double otherwise) const {
  const Json* value = Find(key);
  if (!value) return otherwise;
  Require(value->is_number(), "{}: \"{}\" is {}, expected a number", where_, key, value->type_name());
  const auto number = value->get<double>();
  Require(std::abs(number) <= kMaxNumber, "{}: \"{}\" is {}, which is out of all proportion", where_, key, number);
  return number;
}

bool Fields::Bool(std::string_view key, bool otherwise) const {
  const Json* value = Find(key);
  if (!value) return otherwise;
  Require(value->is_boolean(), "{}: \"{}\" is {}, expected true or false", where_, key, value->type_name());
  return value->get<bool>();
}

std::string Fields::String(std::string_view key, const std::string& otherwise) const {
  const Json* value = Find(key);
  if (!value) return otherwise;
  Require(value->is_string(), "{}: \"{}\" is {}, expected a string", where_, key, value->type_name());
  return value->get<std::string>();
}

std::pair<int64_t, int64_t> Fields::Size(std::string_view key, std::pair<int64_t, int64_t> otherwise) const {
  const Json* value = Find(key);
  if (!value) return otherwise;
  if (value->is_array()) {
    Require(value->size() == 2, "{}: \"{}\" has {} entries, expected height and width", where_, key, value->size());
    return {AsInt((*value)[0], where_, key), AsInt((*value)[1], where_, key)};
  }
  const int64_t side = AsInt(*value, where_, key);
  return {side, side};
}

Fields Fields::Object(std::string_view key) const {
  const Json* value = Find(key);
  Fields object(value ? *value : kEmpty, fmt::format("{}: {}", where_, key));
  object.record_ = record_;
  object.path_ = fmt::format("{}{}.", path_, key);
  return object;
}

const Json& Fields::Value(std::string_view key) const {
  const Json* value = Find(key);
  return value ? *value : kNull;
}

Fields Fields::With(const Json& object) const {
  Fields fields(object, where_);
  fields.record_ = record_;
  fields.path_ = path_;
  return fields;
}

std::vector<Setting> Fields::Settle(std::initializer_list<std::span<const KnownKey>> known) const {
  std::vector<Setting> settings;
  // Of an object whose own keys were read, each key stands for itself.
  const auto settle = [&](const auto& self, const Json& object, const std::string& path) -> void {
    for (const auto& [key, value] : object.items()) {
      const std::string name = path + key;
      const bool read = record_->read.contains(path_ + name);
      const auto within = record_->read.lower_bound(path_ + name + ".");
      if (value.is_object() && within != record_->read.end() && within->starts_with(path_ + name + ".")) {
        self(self, value, name + ".");
        continue;
      }
      Setting setting{.file = where_, .key = name, .value = Shown(value)};
      const KnownKey* const row = FindKnown(known, name);
      if (read) {
        setting.use = Setting::Use::kUsed;
      } else if (row == nullptr) {
        // What begins so is a library's own note.
        setting.use = key.starts_with('_') ? Setting::Use::kNoEffect : Setting::Use::kUnknown;
      } else if (row->neutral.empty()) {
        setting.use = Setting::Use::kNoEffect;
      } else {
        Require(IsNeutral(value, row->neutral),
                "{}: {} is {}, which qkv does not do: only {} gives the answers of the original here", where_,
                Quoted(name), setting.value, Alternatives(row->neutral));
        setting.use = Setting::Use::kNeutral;
      }
      settings.push_back(std::move(setting));
    }
  };
  settle(settle, *object_, "");
  return settings;
}

}  // namespace qkv::io
