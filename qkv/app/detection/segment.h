// Segmentation of photos by a model of masks (EoMT): an object, or a region of one class, for each segment.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/app/detection/segmentation.h"
#include "qkv/app/images/pipeline.h"
#include "qkv/image/image.h"
#include "qkv/image/workspace.h"
#include "qkv/io/json.h"
#include "qkv/model/model.h"

namespace qkv::app {

struct PhotoSegments {
  std::string path;
  image::Image photo;  // as decoded, turned by its EXIF orientation
  SegmentTask task = SegmentTask::kPanoptic;
  Segmentation segmentation;
  std::vector<std::string> labels;  // names of the segments' classes, or empty
};

/// {"path", "task", "height", "width", "segments": [{"id", "index", "label", "score", "area", "bbox": [left, top,
/// width, height], "segmentation": {"size", "counts"}, "token"}]}; semantic segments have no score and no token.
io::Json ToJson(const PhotoSegments& photo);

/// The task of a model unless the caller chooses one: semantic if its photos are split into squares, else panoptic.
SegmentTask DefaultTask(const model::Model& model);

/// Classes by their names or indices: "sky,tree,17", each once. Throws Error if the model has no such class.
std::vector<int64_t> ParseClasses(std::string_view text, const model::Model& model, std::string_view option);

/// Where the work on a photo is done, for callers that share cores and memory with others: all of it in place unless
/// given. Each may throw.
struct SegmentSteps {
  using Step = std::function<void(const std::function<void()>& work)>;
  Step photo = [](const std::function<void()>& work) { work(); };  // goes over the photo's pixels
  Step model = [](const std::function<void()>& work) { work(); };  // a pass of the model, for which it uses all cores
  // Called within `photo` before memory is taken that grows with the photo, in bytes: its input, masks and map.
  std::function<void(int64_t bytes)> reserve = [](int64_t) {};
};

/// Finds the segments of one photo after the other. Refers to the model.
class Segmenter {
 public:
  /// Throws Error if the model has no heads for masks, or does not take images, or if it is for semantic segmentation
  /// only and another task is given.
  Segmenter(const model::Model& model, const SegmentRules& rules);

  /// Throws Error if the file cannot be read, if the pass would take more than MemoryLimit(), and if the answer is not
  /// finite. `file` may be "-": standard input.
  PhotoSegments Segment(const std::filesystem::path& file, const image::DecodeOptions& decode);
  /// The same for a decoded photo; `path` names it.
  PhotoSegments Segment(image::Image photo, const std::string& path, const SegmentSteps& steps = {});

 private:
  /// Runs the model on one input. Its outputs become the i-th of classes_ and masks_.
  void Run(View<const float> pixels, int64_t i, const std::string& path);

  const model::Model& model_;
  const SegmentRules rules_;
  image::Workspace decoding_;
  model::Workspace<float> workspace_;
  Tensor<float> classes_, masks_;  // [squares, Q, C + 1], [squares, Q, mask height, mask width]
};

struct SegmentOptions {
  SegmentRules rules;
  PipelineOptions pipeline;  // batch is not read: photos have sizes of their own
};

/// Calls `use` with the segments of each photo and its index in images.files, in their order. Photos that cannot be
/// read or computed are left out, with a note. Returns their number. Throws Error as Segmenter's constructor.
int SegmentAll(const model::Model& model, const ImageList& images, const SegmentOptions& options,
               const std::function<void(size_t file, const PhotoSegments&)>& use);

/// The photo with its segments.
image::Image DrawSegments(const PhotoSegments& photo);
/// Memory that this takes, in bytes, including the picture.
double DrawingBytes(const PhotoSegments& photo);

/// The ids as a PNG. Panoptic segments: RGB, id = R + 256 G + 256² B, as COCO's; otherwise grey, with 16 bits if one is
/// above 255.
std::string EncodeIds(const PhotoSegments& photo);

/// COCO's results for the photos that are added. Panoptic segments: its panoptic format, whose file_name is the map of
/// ids; otherwise a list of "image_id", "category_id", "segmentation", "bbox" and "score". Classes' ids are their
/// indices.
class CocoSegments {
 public:
  CocoSegments(const model::Model& model, SegmentTask task)
      : labels_(model.labels()), panoptic_(task == SegmentTask::kPanoptic) {}
  /// ids: the file of the photo's ids, or empty.
  void Add(const PhotoSegments& photo, int64_t image_id, const std::filesystem::path& ids);
  void Write(const std::filesystem::path& file) const;

 private:
  std::vector<std::string> labels_;
  bool panoptic_;
  std::vector<io::Json> images_, annotations_;
};

}  // namespace qkv::app
