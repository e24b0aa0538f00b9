// Reads lists of records from JSON as COCO's files have them, event by event: a file may be gigabytes long, most of it
// outlines, which are skipped. Internal to qkv/app.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace qkv::app {

/// The fields of an image, category, annotation or result, as far as they are read.
struct CocoRecord {
  std::optional<int64_t> id, image_id, category_id, width, height, iscrowd;
  std::optional<double> area, score;
  std::optional<std::string> file_name, name;
  std::array<double, 4> bbox{};  // left, top, width, height
  std::optional<int> numbers;    // of bbox; at most 5, for more than 4
};

/// Receives each record. list: its name in the file, empty if the file is a list; index: in this list.
using CocoRecordSink = std::function<void(std::string_view list, int64_t index, CocoRecord& record)>;

/// Parses an object that has lists of records (`lists` of annotations, images, categories), or a list of records.
/// Throws Error, prefixed with `where`, for bad JSON or a field of another type.
void ParseCocoRecords(std::string_view text, std::string_view where, bool is_list, const CocoRecordSink& sink);

}  // namespace qkv::app
