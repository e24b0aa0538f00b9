#include "qkv/app/detection/coco.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <unordered_map>
#include <utility>

#include "qkv/app/detection/coco_parser.h"
#include "qkv/app/open/json_line.h"
#include "qkv/core/error.h"
#include "qkv/core/file.h"

namespace qkv::app {
namespace {

int64_t Given(std::optional<int64_t> value, const char* field, const std::string& place) {
  Require(value.has_value(), "{}: no {}", place, field);
  return *value;
}

image::Rect ReadBox(const CocoRecord& record, const std::string& place) {
  Require(record.numbers.has_value(), "{}: no bbox (annotations of objects have one; of panoptic segmentation, not)",
          place);
  Require(*record.numbers == 4, "{}: bbox: expected 4 numbers (left, top, width, height), got {}", place,
          *record.numbers < 4 ? std::to_string(*record.numbers) : "more");
  const auto [left, top, width, height] = record.bbox;
  Require(width >= 0 && height >= 0, "{}: bbox: expected a width and a height of 0 or more, got {} and {}", place,
          width, height);
  return {.top = top, .left = left, .height = height, .width = width};
}

int64_t ReadSide(std::optional<int64_t> side, const char* field, const std::string& place) {
  Require(side.value_or(0) >= 0, "{}: expected a {} of 0 or more, got {}", place, field, side.value_or(0));
  return side.value_or(0);
}

void AddRecord(std::string_view list, const std::string& place, CocoRecord& record, CocoDataset& dataset) {
  const int64_t id = Given(record.id, "id", place);
  if (list == "images") {
    Require(record.file_name.has_value() && !record.file_name->empty(), "{}: no file_name", place);
    dataset.images.push_back({.id = id,
                              .file_name = std::move(*record.file_name),
                              .width = ReadSide(record.width, "width", place),
                              .height = ReadSide(record.height, "height", place)});
  } else if (list == "categories") {
    Require(record.name.has_value(), "{}: no name", place);
    dataset.categories.push_back({.id = id, .name = std::move(*record.name)});
  } else {
    const image::Rect box = ReadBox(record, place);
    const double area = record.area.value_or(box.width * box.height);
    Require(std::isfinite(area), "{}: area: expected a finite number", place);
    dataset.annotations.push_back({.id = id,
                                   .image_id = Given(record.image_id, "image_id", place),
                                   .category_id = Given(record.category_id, "category_id", place),
                                   .box = box,
                                   .area = area,
                                   .crowd = record.iscrowd.value_or(0) != 0});
  }
}

template <typename T>
void RequireDifferentIds(const std::vector<T>& records, const char* list, std::string_view where) {
  std::vector<int64_t> ids;
  ids.reserve(records.size());
  for (const T& record : records) ids.push_back(record.id);
  std::ranges::sort(ids);
  const auto repeated = std::ranges::adjacent_find(ids);
  Require(repeated == ids.end(), "{}: two {} have id {}; number them differently", where, list,
          repeated == ids.end() ? 0 : *repeated);
}

std::string_view AsText(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

std::string Normalised(std::string_view name) {
  const size_t first = name.find_first_not_of(" \t");
  if (first == name.npos) return {};
  std::string normalised(name.substr(first, name.find_last_not_of(" \t") - first + 1));
  for (char& c : normalised) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return normalised;
}

}  // namespace

CocoDataset ParseCoco(std::string_view text, std::string_view where) {
  CocoDataset dataset;
  ParseCocoRecords(text, where, /*is_list=*/false, [&](std::string_view list, int64_t index, CocoRecord& record) {
    AddRecord(list, fmt::format("{}: {}[{}]", where, list, index), record, dataset);
  });
  Require(!dataset.images.empty(), "{}: no images; expected COCO's \"images\", \"categories\" and \"annotations\"",
          where);
  RequireDifferentIds(dataset.images, "images", where);
  RequireDifferentIds(dataset.categories, "categories", where);
  RequireDifferentIds(dataset.annotations, "annotations", where);
  return dataset;
}

CocoDataset ReadCoco(const std::filesystem::path& file) {
  const std::string where = file.string();
  const MappedFile mapped(file);
  CocoDataset dataset = ParseCoco(AsText(mapped), where);
  mapped.RequireUnchanged(where);
  return dataset;
}

io::Json ToJson(const CocoDetection& detection) {
  const image::Rect& box = detection.box;
  return {{"image_id", detection.image_id},
          {"category_id", detection.category_id},
          {"bbox", {box.left, box.top, box.width, box.height}},
          {"score", detection.score}};
}

void WriteCocoDetections(const std::filesystem::path& file, std::span<const CocoDetection> detections) {
  WriteFile(file, [&](FileSink& sink) {
    sink.Write("[");
    bool first = true;
    for (const CocoDetection& detection : detections) {
      const image::Rect& box = detection.box;
      Require(std::isfinite(box.left + box.top + box.width + box.height) && std::isfinite(detection.score),
              "{}: a detection of image {} is not finite", file.string(), detection.image_id);
      sink.Write((first ? "\n" : ",\n") + JsonLine(ToJson(detection)));
      first = false;
    }
    sink.Write("\n]\n");
  });
}

std::vector<CocoDetection> ParseCocoDetections(std::string_view text, std::string_view where) {
  std::vector<CocoDetection> detections;
  ParseCocoRecords(text, where, /*is_list=*/true, [&](std::string_view, int64_t index, CocoRecord& record) {
    const std::string place = fmt::format("{}: record {}", where, index);
    Require(record.score.has_value(), "{}: no score", place);
    Require(std::isfinite(*record.score), "{}: score: expected a finite number", place);
    detections.push_back({.image_id = Given(record.image_id, "image_id", place),
                          .category_id = Given(record.category_id, "category_id", place),
                          .box = ReadBox(record, place),
                          .score = *record.score});
  });
  return detections;
}

std::vector<CocoDetection> ReadCocoDetections(const std::filesystem::path& file) {
  const std::string where = file.string();
  const MappedFile mapped(file);
  std::vector<CocoDetection> detections = ParseCocoDetections(AsText(mapped), where);
  mapped.RequireUnchanged(where);
  return detections;
}

std::vector<std::optional<int64_t>> MatchCocoCategories(std::span<const std::string> labels,
                                                        const CocoDataset& dataset) {
  std::unordered_map<std::string, int64_t> ids;
  for (const CocoCategory& category : dataset.categories) {
    const bool added = ids.emplace(Normalised(category.name), category.id).second;
    Require(added, "categories: two are called \"{}\"", category.name);
  }
  std::vector<std::optional<int64_t>> matches;
  bool any = false;
  for (const std::string& label : labels) {
    const auto found = ids.find(Normalised(label));
    matches.push_back(found == ids.end() ? std::nullopt : std::optional(found->second));
    any |= found != ids.end();
  }
  Require(any, "categories: no label of the model ({}, …) is a category of the data ({}, …)",
          labels.empty() ? "none" : labels[0], dataset.categories.empty() ? "none" : dataset.categories[0].name);
  return matches;
}

}  // namespace qkv::app
