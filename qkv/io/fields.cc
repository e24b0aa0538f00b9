#include "qkv/io/fields.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <set>

#include "qkv/core/error.h"

namespace qkv::io {
namespace {

const Json kEmpty = Json::object(), kNull;

constexpr size_t kShown = 60;  // bytes of a value
constexpr size_t kNamed = 20;  // unknown keys

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

// The keys read from an object, or from all the objects in a list.
struct Fields::Record {
  std::string where;
  std::set<std::string, std::less<>> read = {};
  std::map<std::string, std::shared_ptr<Record>, std::less<>> within = {};
  bool items = false;  // of the objects in a list or an object

  // Appends the keys of `objects`, each once. `path`: in front of them, "" or "rope_parameters.".
  void Settle(std::span<const Json* const> objects, const std::string& file, const std::string& path,
              std::initializer_list<std::span<const KnownKey>> known, std::vector<Setting>* settings) const;
};

Fields::Fields(const Json& object, std::string where)
    : Fields(object, std::make_shared<Record>(Record{.where = std::move(where)})) {}

Fields::Fields(const Json& object, std::shared_ptr<Record> record) : object_(&object), record_(std::move(record)) {
  Require(object.is_object(), "{}: expected a JSON object, got {}", where(), object.type_name());
}

const std::string& Fields::where() const { return record_->where; }

std::shared_ptr<Fields::Record> Fields::Within(std::string_view key) const {
  const auto found = record_->within.find(key);
  if (found != record_->within.end()) return found->second;
  auto record = std::make_shared<Record>(Record{.where = fmt::format("{}: {}", where(), key)});
  return record_->within.emplace(key, std::move(record)).first->second;
}

const Json* Fields::Find(std::string_view key) const {
  // A file may have many objects with the same keys.
  if (record_->read.find(key) == record_->read.end()) record_->read.emplace(key);
  const auto found = object_->find(key);
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

bool Fields::Has(std::string_view key) const { return Find(key) != nullptr; }

int64_t Fields::Int(std::string_view key, int64_t otherwise) const {
  const Json* value = Find(key);
  return value ? AsInt(*value, where(), key) : otherwise;
}

const Json& Fields::Required(std::string_view key) const {
  const Json* value = Find(key);
  Require(value != nullptr, "{}: \"{}\" is missing", where(), key);
  return *value;
}

int64_t Fields::RequiredInt(std::string_view key) const { return AsInt(Required(key), where(), key); }

std::string Fields::RequiredString(std::string_view key) const {
  Required(key);
  return String(key, {});
}

const Json& Fields::List(std::string_view key) const {
  const Json& value = Required(key);
  Require(value.is_array(), "{}: \"{}\" is {}, expected a list", where(), key, value.type_name());
  return value;
}

double Fields::Number(std::string_view key, double otherwise) const {
  const Json* value = Find(key);
  if (!value) return otherwise;
  Require(value->is_number(), "{}: \"{}\" is {}, expected a number", where(), key, value->type_name());
  const auto number = value->get<double>();
  Require(std::abs(number) <= kMaxNumber, "{}: \"{}\" is {}, which is out of all proportion", where(), key, number);
  return number;
}

bool Fields::Bool(std::string_view key, bool otherwise) const {
  const Json* value = Find(key);
  if (!value) return otherwise;
  Require(value->is_boolean(), "{}: \"{}\" is {}, expected true or false", where(), key, value->type_name());
  return value->get<bool>();
}

std::string Fields::String(std::string_view key, const std::string& otherwise) const {
  const Json* value = Find(key);
  if (!value) return otherwise;
  Require(value->is_string(), "{}: \"{}\" is {}, expected a string", where(), key, value->type_name());
  return value->get<std::string>();
}

std::pair<int64_t, int64_t> Fields::Size(std::string_view key, std::pair<int64_t, int64_t> otherwise) const {
  const Json* value = Find(key);
  if (!value) return otherwise;
  if (value->is_array()) {
    Require(value->size() == 2, "{}: \"{}\" has {} entries, expected height and width", where(), key, value->size());
    return {AsInt((*value)[0], where(), key), AsInt((*value)[1], where(), key)};
  }
  const int64_t side = AsInt(*value, where(), key);
  return {side, side};
}

Fields Fields::Object(std::string_view key) const {
  const Json* value = Find(key);
  return {value ? *value : kEmpty, Within(key)};
}

Fields Fields::Item(std::string_view key, const Json& value) const {
  std::shared_ptr<Record> record = Within(key);
  record->items = true;
  return {value, std::move(record)};
}

const Json& Fields::Value(std::string_view key) const {
  const Json* value = Find(key);
  return value ? *value : kNull;
}

Fields Fields::With(const Json& object) const { return {object, record_}; }

namespace {

// values: of one key in all the objects that share a record. row: nullptr if the key is unknown.
Setting SettleKey(const std::string& file, const std::string& name, std::span<const Json* const> values, bool is_read,
                  const KnownKey* row) {
  Setting setting{.file = file, .key = name, .value = Shown(*values.front())};
  if (is_read) return setting;
  if (row == nullptr) {
    // What begins so is a library's own note.
    const bool is_note = name.substr(name.rfind('.') + 1).starts_with('_');
    setting.use = is_note ? Setting::Use::kNoEffect : Setting::Use::kUnknown;
  } else if (row->neutral.empty()) {
    setting.use = Setting::Use::kNoEffect;
  } else {
    for (const Json* value : values) {
      Require(IsNeutral(*value, row->neutral),
              "{}: {} is {}, which qkv does not do: only {} gives the answers of the original here{}{}", file,
              Quoted(name), Shown(*value), Alternatives(row->neutral), row->advice.empty() ? "" : "; ", row->advice);
    }
    setting.use = Setting::Use::kNeutral;
  }
  return setting;
}

}  // namespace

void Fields::Record::Settle(std::span<const Json* const> objects, const std::string& file, const std::string& path,
                            std::initializer_list<std::span<const KnownKey>> known,
                            std::vector<Setting>* settings) const {
  std::map<std::string_view, std::vector<const Json*>> values;
  for (const Json* object : objects) {
    for (const auto& [key, value] : object->get_ref<const Json::object_t&>()) values[key].push_back(&value);
  }
  for (const auto& [key, all] : values) {
    const std::string name = path + std::string(key);
    const auto inner = within.find(key);
    // If an object's own keys were read, each of them stands for itself.
    std::vector<const Json*> own;
    if (inner != within.end() && !inner->second->read.empty()) {
      for (const Json* value : all) {
        if (!inner->second->items) {
          if (value->is_object()) own.push_back(value);
        } else if (value->is_structured()) {
          for (const Json& item : *value) {
            if (item.is_object()) own.push_back(&item);
          }
        }
      }
    }
    if (own.empty()) {
      settings->push_back(SettleKey(file, name, all, read.find(key) != read.end(), FindKnown(known, name)));
    } else {
      inner->second->Settle(own, file, name + ".", known, settings);
    }
  }
}

std::vector<Setting> Fields::Settle(std::initializer_list<std::span<const KnownKey>> known) const {
  std::vector<Setting> settings;
  record_->Settle(std::array{object_}, where(), "", known, &settings);
  return settings;
}

}  // namespace qkv::io
