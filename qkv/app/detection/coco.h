// Files of COCO's object detection: annotations ("instances_val2017.json") and results of a detector. Segmentations,
// keypoints and captions are skipped. https://cocodataset.org/#format-data
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/image/rect.h"
#include "qkv/io/json.h"

namespace qkv::app {

struct CocoImage {
  int64_t id = 0;
  std::string file_name;          // relative to the folder of the images
  int64_t width = 0, height = 0;  // in pixels; 0 if the file does not say
};

struct CocoCategory {
  int64_t id = 0;
  std::string name;
};

/// An object of an image.
struct CocoAnnotation {
  int64_t id = 0, image_id = 0, category_id = 0;
  image::Rect box;     // in pixels of the image
  double area = 0;     // in pixels: of the object, or of its box if the file does not say
  bool crowd = false;  // a group of objects, which any number of detections may match
};

/// Ids differ within each of the three. Annotations may refer to images and categories that are not there.
struct CocoDataset {
  std::vector<CocoImage> images;
  std::vector<CocoCategory> categories;
  std::vector<CocoAnnotation> annotations;
};

/// Parses an annotation file in one pass; memory is taken only for what it keeps. Throws Error, prefixed with `where`,
/// for bad JSON, missing or repeated ids, and boxes that are not four finite numbers with width and height ≥ 0.
CocoDataset ParseCoco(std::string_view text, std::string_view where);
/// The same for a file.
CocoDataset ReadCoco(const std::filesystem::path& file);

/// One box of a detector.
struct CocoDetection {
  int64_t image_id = 0, category_id = 0;
  image::Rect box;   // in pixels of the image
  double score = 0;  // higher is more certain
};

/// {"image_id", "category_id", "bbox": [left, top, width, height], "score"}
io::Json ToJson(const CocoDetection& detection);

/// Writes a list of these, one a line, for evaluation by qkv or other programs. Numbers are read back unchanged. Throws
/// Error if one is not finite, or if the file cannot be written.
void WriteCocoDetections(const std::filesystem::path& file, std::span<const CocoDetection> detections);

/// Parses such a list of any program. Throws Error, prefixed with `where`, as ParseCoco.
std::vector<CocoDetection> ParseCocoDetections(std::string_view text, std::string_view where);
/// The same for a file.
std::vector<CocoDetection> ReadCocoDetections(const std::filesystem::path& file);

/// The category of each label of a model, in its order: the one of that name, whatever its case and spaces at the ends;
/// none for a label that the data set lacks ("N/A" in COCO's numbering of 91). Throws Error if no label is found, or if
/// two categories have one name.
std::vector<std::optional<int64_t>> MatchCocoCategories(std::span<const std::string> labels,
                                                        const CocoDataset& dataset);

}  // namespace qkv::app
