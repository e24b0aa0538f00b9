#include "qkv/app/open/labels.h"

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <utility>

#include "qkv/builtin/imagenet.h"
#include "qkv/core/error.h"
#include "qkv/core/file.h"
#include "qkv/core/lines.h"
#include "qkv/io/csv.h"
#include "qkv/io/json.h"

namespace qkv::app {
namespace {

// A name takes a few bytes; a larger file is something else.
constexpr size_t kMaxLabelBytes = size_t{64} << 20;

std::optional<int64_t> ParseIndex(std::string_view text) {
  int64_t index = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), index);
  if (text.empty() || error != std::errc() || stop != text.data() + text.size()) return std::nullopt;
  return index;
}

// Fills names by index and checks that each index comes once.
class Names {
 public:
  Names(std::string where, int64_t classes) : where_(std::move(where)), names_(static_cast<size_t>(classes)) {}

  void Set(int64_t index, std::string_view name) {
    Require(index >= 0 && index < std::ssize(names_), "{}: index {}, the model has {} classes", where_, index,
            names_.size());
    std::string& place = names_[static_cast<size_t>(index)];
    Require(place.empty(), "{}: two names for class {}: \"{}\" and \"{}\"", where_, index, place, name);
    Require(!name.empty(), "{}: an empty name for class {}", where_, index);
    place = name;
  }
  void Append(std::string_view name) { Set(count_++, name); }

  std::vector<std::string> Finish() && {
    const auto missing = std::ranges::find(names_, "");
    Require(missing == names_.end(), "{}: {} names; class {} of the model's {} has none", where_,
            std::ranges::count_if(names_, [](const std::string& name) { return !name.empty(); }),
            missing - names_.begin(), names_.size());
    return std::move(names_);
  }

 private:
  std::string where_;
  std::vector<std::string> names_;
  int64_t count_ = 0;
};

void ReadJsonNames(const io::Json& json, const std::string& where, Names& names) {
  Require(json.is_array() || json.is_object(), "{}: expected a JSON list or object of names", where);
  const auto text = [&](const io::Json& value) {
    Require(value.is_string(), "{}: expected names as strings, got {}", where, value.dump());
    return value.get<std::string>();
  };
  if (json.is_array()) {
    for (const io::Json& value : json) names.Append(text(value));
    return;
  }
  for (const auto& [key, value] : json.items()) {
    if (value.is_number_integer()) {
      names.Set(value.get<int64_t>(), key);
    } else {
      const std::optional<int64_t> index = ParseIndex(key);
      Require(index.has_value(), "{}: \"{}\" is no index of a class", where, key);
      names.Set(*index, text(value));
    }
  }
}

std::optional<size_t> FindColumn(const std::vector<std::string>& heading, std::initializer_list<const char*> known) {
  for (size_t i = 0; i < heading.size(); ++i) {
    for (const char* name : known) {
      if (heading[i] == name) return i;
    }
  }
  return std::nullopt;
}

// A header names the columns; without one a record is a name, or an index and a name.
void ReadCsvNames(std::string_view text, const std::string& where, Names& names) {
  io::CsvReader reader(text, where);
  io::CsvRecord record;
  if (!reader.Next(&record)) return;
  const std::optional<size_t> named = FindColumn(record.fields, {"label", "name", "class", "class_name"});
  const std::optional<size_t> indexed = FindColumn(record.fields, {"index", "id", "class_id", "label_id"});
  if ((named || indexed) && !reader.Next(&record)) return;
  do {
    const std::vector<std::string>& fields = record.fields;
    const std::string& name = fields[std::min(named.value_or(fields.size() - 1), fields.size() - 1)];
    std::optional<int64_t> index;
    if (indexed && *indexed < fields.size()) index = ParseIndex(fields[*indexed]);
    if (!named && !indexed && fields.size() == 2) index = ParseIndex(fields[0]);
    Require(!indexed || index.has_value(), "{}:{}: expected the index of a class", where, record.line);
    if (index) {
      names.Set(*index, name);
    } else {
      names.Append(name);
    }
  } while (reader.Next(&record));
}

}  // namespace

std::vector<std::string> ReadLabels(const std::filesystem::path& file, int64_t classes) {
  const std::string where = file.string();
  Require(classes > 0, "{}: the model has no classes to name", where);
  const std::string bytes = ReadFile(file, kMaxLabelBytes);
  const std::string_view text = WithoutByteOrderMark(bytes);
  Names names(where, classes);
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first != text.npos && (text[first] == '[' || text[first] == '{')) {
    ReadJsonNames(io::ParseJson(text, where), where, names);
  } else if (file.extension() == ".csv" || file.extension() == ".tsv") {
    ReadCsvNames(text, where, names);
  } else {
    std::vector<std::string_view> lines = SplitLines(text);
    while (!lines.empty() && Trim(lines.back()).empty()) lines.pop_back();
    for (size_t i = 0; i < lines.size(); ++i) {
      const std::string_view name = Trim(lines[i]);
      Require(!name.empty(), "{}:{}: an empty line; expected the name of class {}", where, i + 1, i);
      names.Append(name);
    }
  }
  return std::move(names).Finish();
}

void CompleteLabels(const std::filesystem::path& file, const std::string& source, model::Description& description,
                    const Note& note) {
  const int64_t classes = description.config.classes;
  if (!file.empty()) {
    description.labels = ReadLabels(file, description.config.named_classes());
    description.label_source = model::LabelSource::kCaller;
    return;
  }
  const std::string_view set = builtin::ImageNetSet(classes);
  if (!description.labels.empty() || set.empty()) return;
  for (builtin::ImageNetClass& known : builtin::ImageNetClasses(classes)) {
    description.labels.push_back(std::move(known.names));
  }
  description.label_source = model::LabelSource::kAssumed;
  Notify(note, FormatShown("{}: assumed: its {} classes are those of {} (else give their names by --labels)", source,
                           classes, set));
}

}  // namespace qkv::app
