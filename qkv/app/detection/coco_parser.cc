#include "qkv/app/detection/coco_parser.h"

#include <algorithm>
#include <cmath>

#include "qkv/core/error.h"
#include "qkv/io/json.h"

namespace qkv::app {
namespace {

using io::Json;

// Fields are few and short; the limit is for a string that the parser would copy.
constexpr io::JsonLimits kLimits = {.depth = 64, .token_bytes = size_t{1} << 24, .values = SIZE_MAX};
// Doubles represent all integers up to here.
constexpr double kMaxIntegralDouble = 9007199254740992.0;

enum class FieldType { kUnknown, kInteger, kNumber, kText, kBox };

constexpr const char* Describe(FieldType type) {
  constexpr std::array<const char*, 5> kNames = {"anything", "an integer", "a number", "a string", "four numbers"};
  return kNames[static_cast<size_t>(type)];
}

bool IsRecordList(std::string_view name) { return name == "images" || name == "categories" || name == "annotations"; }

// The type of a field in the records of `list`, which is empty for results. Other programs give other names a meaning
// of their own.
FieldType TypeOf(std::string_view list, std::string_view key) {
  if (list == "images") {
    if (key == "file_name") return FieldType::kText;
    return key == "id" || key == "width" || key == "height" ? FieldType::kInteger : FieldType::kUnknown;
  }
  if (list == "categories") {
    if (key == "name") return FieldType::kText;
    return key == "id" ? FieldType::kInteger : FieldType::kUnknown;
  }
  if (key == "image_id" || key == "category_id") return FieldType::kInteger;
  if (key == "bbox") return FieldType::kBox;
  if (list.empty()) return key == "score" ? FieldType::kNumber : FieldType::kUnknown;
  if (key == "id" || key == "iscrowd") return FieldType::kInteger;
  return key == "area" ? FieldType::kNumber : FieldType::kUnknown;
}

// nlohmann's parser calls these for each event. Levels count open objects and lists: the fields of records are at
// `record_level_`, the numbers of a bbox one level deeper.
class RecordHandler final : public nlohmann::json_sax<Json> {
 public:
  RecordHandler(std::string_view where, bool is_list, const CocoRecordSink& sink)
      : where_(where), is_list_(is_list), record_level_(is_list ? 2 : 3), sink_(sink), in_list_(is_list) {}

  bool null() override {
    if (!InField()) CheckPlace("null");
    return true;  // of a field: as if it were not there
  }
  bool boolean(bool value) override {
    if (InField() && key_ == "iscrowd") {
      record_.iscrowd = value;
    } else {
      CheckPlace("a boolean");
    }
    return true;
  }
  bool number_integer(int64_t value) override { return Number(static_cast<double>(value), value); }
  bool number_unsigned(uint64_t value) override {
    if (value > static_cast<uint64_t>(INT64_MAX)) return Number(static_cast<double>(value), std::nullopt);
    return Number(static_cast<double>(value), static_cast<int64_t>(value));
  }
  bool number_float(double value, const std::string&) override {
    std::optional<int64_t> integer;  // some programs write all numbers as floating point
    if (std::abs(value) <= kMaxIntegralDouble && std::trunc(value) == value) integer = static_cast<int64_t>(value);
    return Number(value, integer);
  }
  bool string(std::string& value) override {
    if (InField() && type_ == FieldType::kText) {
      (list_ == "images" ? record_.file_name : record_.name) = std::move(value);
    } else {
      CheckPlace("a string");
    }
    return true;
  }
  bool binary(Json::binary_t&) override { return true; }  // not in JSON

  bool start_object(size_t) override {
    Enter(/*is_array=*/false);
    return true;
  }
  bool key(std::string& value) override {
    if (InField()) {
      key_ = std::move(value);
      type_ = TypeOf(list_, key_);
    } else if (level_ == 1) {
      list_ = std::move(value);
    }
    return true;
  }
  bool end_object() override {
    if (InField()) sink_(list_, index_++, record_);
    --level_;
    return true;
  }
  bool start_array(size_t) override {
    Enter(/*is_array=*/true);
    return true;
  }
  bool end_array() override {
    if (level_ == record_level_ + 1) in_box_ = false;
    if (level_ == record_level_ - 1) in_list_ = false;
    --level_;
    return true;
  }
  bool parse_error(size_t, const std::string&, const Json::exception& error) override {
    Fail("{}: not valid JSON: {}", where_, io::JsonErrorReason(error));
  }

 private:
  // In a record, but in no list or object of it.
  bool InField() const { return in_list_ && level_ == record_level_; }

  [[noreturn]] void FailHere(const char* expected, std::string_view got, bool in_field = true) const {
    const std::string place = list_.empty() ? fmt::format("record {}", index_) : fmt::format("{}[{}]", list_, index_);
    Fail("{}: {}: {}expected {}, got {}", where_, place, in_field ? key_ + ": " : "", expected, got);
  }

  void Enter(bool is_array) {
    const char* const got = is_array ? "a list" : "an object";
    if (level_ == 0) {
      Require(is_array == is_list_, "{}: expected {}", where_,
              is_list_ ? "a list of results: [{\"image_id\", \"category_id\", \"bbox\", \"score\"}, …]"
                       : "an object with \"images\", \"categories\" and \"annotations\"");
    } else if (level_ == 1 && !is_list_) {
      in_list_ = IsRecordList(list_);
      index_ = 0;
      Require(is_array || !in_list_, "{}: expected a list of {}, got an object", where_, list_);
    } else if (in_list_ && level_ == record_level_ - 1) {
      if (is_array) FailHere("an object", got, /*in_field=*/false);
      record_ = {};
    } else if (InField() && is_array && type_ == FieldType::kBox) {
      in_box_ = true;
      record_.numbers = 0;
    } else {
      CheckPlace(got);
    }
    ++level_;
  }

  // Called with a value that is not read: nothing is expected here, or another type.
  void CheckPlace(const char* got) const {
    Require(level_ > 0, "{}: expected {}, got {}", where_, is_list_ ? "a list" : "an object", got);
    if (in_box_) FailHere(Describe(FieldType::kBox), got);
    if (InField() && type_ != FieldType::kUnknown) FailHere(Describe(type_), got);
    if (in_list_ && level_ == record_level_ - 1) FailHere("an object", got, /*in_field=*/false);
    const bool is_record_list = level_ == 1 && !is_list_ && IsRecordList(list_);
    Require(!is_record_list, "{}: expected a list of {}, got {}", where_, list_, got);
  }

  bool Number(double value, std::optional<int64_t> integer) {
    if (in_box_ && level_ == record_level_ + 1) {
      if (*record_.numbers < 4) record_.bbox[static_cast<size_t>(*record_.numbers)] = value;
      record_.numbers = std::min(*record_.numbers + 1, 5);
    } else if (InField() && type_ == FieldType::kInteger) {
      if (!integer) FailHere(Describe(type_), fmt::format("{}", value));
      IntegerField() = integer;
    } else if (InField() && type_ == FieldType::kNumber) {
      (key_ == "area" ? record_.area : record_.score) = value;
    } else {
      CheckPlace("a number");
    }
    return true;
  }

  std::optional<int64_t>& IntegerField() {
    if (key_ == "image_id") return record_.image_id;
    if (key_ == "category_id") return record_.category_id;
    if (key_ == "width") return record_.width;
    if (key_ == "height") return record_.height;
    return key_ == "id" ? record_.id : record_.iscrowd;
  }

  const std::string_view where_;
  const bool is_list_;  // of results
  const int record_level_;
  const CocoRecordSink& sink_;
  int level_ = 0;
  bool in_list_;         // of records
  bool in_box_ = false;  // in a bbox
  std::string list_, key_;
  FieldType type_ = FieldType::kUnknown;  // of the field `key_`
  int64_t index_ = 0;
  CocoRecord record_;
};

}  // namespace

void ParseCocoRecords(std::string_view text, std::string_view where, bool is_list, const CocoRecordSink& sink) {
  io::CheckJsonLimits(text, kLimits, where);
  RecordHandler handler(where, is_list, sink);
  Json::sax_parse(text, &handler);
}

}  // namespace qkv::app
