#include "qkv/app/coco_parser.h"

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

// nlohmann's parser calls it for each event. Levels count open objects and lists: the records are at `record_level_`,
// the numbers of a bbox one level deeper.
class RecordHandler final : public nlohmann::json_sax<Json> {
 public:
  RecordHandler(std::string_view where, bool is_list, const CocoRecordSink& sink)
      : where_(where), record_level_(is_list ? 2 : 3), sink_(sink), in_list_(is_list) {}

  bool null() override { return InField() || Scalar("null"); }  // of a field: as if it were not there
  bool boolean(bool value) override {
    if (!InField()) return Scalar("a boolean");
    if (key_ == "iscrowd") {
      record_.iscrowd = value;
    } else {
      RefuseIfKnown("a boolean");
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
    if (!InField()) return Scalar("a string");
    if (key_ == "file_name") {
      record_.file_name = std::move(value);
    } else if (key_ == "name") {
      record_.name = std::move(value);
    } else {
      RefuseIfKnown("a string");
    }
    return true;
  }
  bool binary(Json::binary_t&) override { return true; }  // not in JSON

  bool start_object(size_t) override {
    Enter(/*is_array=*/false);
    return true;
  }
  bool key(std::string& value) override {
    if (level_ == record_level_) {
      key_ = std::move(value);
    } else if (level_ == 1) {
      list_ = std::move(value);
    }
    return true;
  }
  bool end_object() override {
    if (level_ == record_level_ && in_list_) sink_(list_, index_++, record_);
    --level_;
    return true;
  }
  bool start_array(size_t) override {
    Enter(/*is_array=*/true);
    return true;
  }
  bool end_array() override {
    if (level_ == record_level_ + 1) in_box_ = false;
    if (level_ == record_level_ - 1 && record_level_ == 3) in_list_ = false;
    --level_;
    return true;
  }
  bool parse_error(size_t, const std::string&, const Json::exception& error) override {
    Fail("{}: not valid JSON: {}", where_, io::JsonErrorReason(error));
  }

 private:
  // In a value of a field of a record.
  bool InField() const { return in_list_ && level_ == record_level_; }

  std::string Place() const {
    return list_.empty() ? fmt::format("{}: record {}", where_, index_)
                         : fmt::format("{}: {}[{}]", where_, list_, index_);
  }

  void Enter(bool is_array) {
    ++level_;
    const bool is_list = record_level_ == 2;
    if (level_ == 1) {
      Require(is_array == is_list, "{}: expected {}", where_,
              is_list ? "a list of results: [{\"image_id\", \"category_id\", \"bbox\", \"score\"}, …]"
                      : "an object with \"images\", \"categories\" and \"annotations\"");
    } else if (level_ == 2 && !is_list) {
      in_list_ = list_ == "images" || list_ == "categories" || list_ == "annotations";
      index_ = 0;
      Require(is_array || !in_list_, "{}: expected a list of {}", where_, list_);
    } else if (in_list_ && level_ == record_level_) {
      Require(!is_array, "{}: expected an object, got a list", Place());
      record_ = {};
    } else if (in_list_ && level_ == record_level_ + 1) {
      if (is_array && key_ == "bbox") {
        in_box_ = true;
        record_.numbers = 0;
      } else {
        RefuseIfKnown(is_array ? "a list" : "an object");
      }
    } else {
      Require(!in_box_, "{}: bbox: expected four numbers", Place());
    }
  }

  // A value that is no number, or in no field.
  bool Scalar(const char* what) {
    Require(level_ > 0, "{}: expected an object or a list, got {}", where_, what);
    Require(!in_box_, "{}: bbox: expected four numbers, got {}", Place(), what);
    Require(!(in_list_ && level_ == record_level_ - 1), "{}: expected an object, got {}", Place(), what);
    const bool of_list =
        level_ == 1 && record_level_ == 3 && (list_ == "images" || list_ == "categories" || list_ == "annotations");
    Require(!of_list, "{}: expected a list of {}, got {}", where_, list_, what);
    if (InField()) RefuseIfKnown(what);
    return true;
  }

  bool Number(double value, std::optional<int64_t> integer) {
    if (in_box_ && level_ == record_level_ + 1) {
      Require(std::isfinite(value), "{}: bbox: expected four numbers, got {}", Place(), value);
      if (*record_.numbers < 4) record_.bbox[static_cast<size_t>(*record_.numbers)] = value;
      record_.numbers = std::min(*record_.numbers + 1, 5);
      return true;
    }
    if (!InField()) return Scalar("a number");
    if (std::optional<int64_t>* const field = IntegerField()) {
      Require(integer.has_value(), "{}: {}: expected an integer, got {}", Place(), key_, value);
      *field = integer;
    } else if (key_ == "area") {
      record_.area = value;
    } else if (key_ == "score") {
      record_.score = value;
    } else {
      RefuseIfKnown("a number");
    }
    return true;
  }

  std::optional<int64_t>* IntegerField() {
    if (key_ == "id") return &record_.id;
    if (key_ == "image_id") return &record_.image_id;
    if (key_ == "category_id") return &record_.category_id;
    if (key_ == "width") return &record_.width;
    if (key_ == "height") return &record_.height;
    return key_ == "iscrowd" ? &record_.iscrowd : nullptr;
  }

  // Called with a value of a wrong type.
  void RefuseIfKnown(const char* got) {
    const bool text = key_ == "file_name" || key_ == "name";
    const bool number = key_ == "area" || key_ == "score";
    const char* const expected = text                        ? "a string"
                                 : number                    ? "a number"
                                 : key_ == "bbox"            ? "four numbers"
                                 : IntegerField() != nullptr ? "an integer"
                                                             : nullptr;
    // Only COCO's annotations have these as defined; others may give the keys a meaning of their own.
    const bool known = list_ == "images"       ? key_ == "id" || key_ == "file_name" || IsSize()
                       : list_ == "categories" ? key_ == "id" || key_ == "name"
                                               : key_ != "name" && key_ != "file_name" && !IsSize();
    Require(expected == nullptr || !known, "{}: {}: expected {}, got {}", Place(), key_, expected, got);
  }
  bool IsSize() const { return key_ == "width" || key_ == "height"; }

  const std::string_view where_;
  const int record_level_;
  const CocoRecordSink& sink_;
  int level_ = 0;
  bool in_list_;         // of records
  bool in_box_ = false;  // in a bbox
  std::string list_, key_;
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
