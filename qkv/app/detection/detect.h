// Objects that a detector (YOLOS) finds in photos.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "qkv/app/detection/coco.h"
#include "qkv/app/images/pipeline.h"
#include "qkv/image/image.h"
#include "qkv/image/rect.h"
#include "qkv/image/workspace.h"
#include "qkv/io/json.h"
#include "qkv/model/model.h"

namespace qkv::app {

struct DetectedObject {
  int64_t index = 0;  // of the class, from 0
  std::string label;  // its name, or empty if the model has none
  double score = 0;   // softmax probability among the classes and "no object"
  image::Rect box;    // in pixels of the photo; may reach beyond it
  int64_t token = 0;  // detection token that found it, from 0
};

struct PhotoObjects {
  std::string path;
  image::Image photo;                   // as decoded, turned by its EXIF orientation
  std::vector<DetectedObject> objects;  // best first
};

/// {"path", "height", "width", "objects": [{"index", "label", "score", "box": [left, top, width, height], "token"}]}
io::Json ToJson(const PhotoObjects& photo);

/// The objects of one photo of height × width pixels, as transformers' post_process_object_detection: those whose best
/// class has a score above the threshold; best first, equal scores in the order of their tokens. logits: [T, classes +
/// 1], boxes: [T, 4] relative (model::Outputs), both dense; labels: names of the classes, or empty.
std::vector<DetectedObject> FindObjects(View<const float> logits, View<const float> boxes, int64_t height,
                                        int64_t width, double threshold, std::span<const std::string> labels);

/// Finds the objects of one photo after the other. Refers to the model.
class Detector {
 public:
  /// Throws Error if the model has no heads for detection, or does not take images.
  Detector(const model::Model& model, double threshold);

  /// Throws Error if the file cannot be read, if the pass would take more than MemoryLimit(), and if the answer is not
  /// finite. `file` may be "-": standard input.
  PhotoObjects Detect(const std::filesystem::path& file, const image::DecodeOptions& decode);
  /// The same for a decoded photo and its pixels by Model::Pixels; `path` names it. No work grows with the photo.
  PhotoObjects Detect(image::Image photo, const Tensor<float>& pixels, const std::string& path);

 private:
  const model::Model& model_;
  const double threshold_;
  image::Workspace decoding_;
  model::Workspace<float> workspace_;
  Tensor<float> logits_, boxes_;
};

struct DetectOptions {
  double threshold = 0.5;
  PipelineOptions pipeline;  // batch is not read: photos have sizes of their own
};

/// Calls `use` with the objects of each photo and its index in images.files, in their order. Photos that cannot be read
/// or computed are left out, with a note. Returns their number. Throws Error as Detector's constructor.
int DetectAll(const model::Model& model, const ImageList& images, const DetectOptions& options,
              const std::function<void(size_t file, const PhotoObjects&)>& use);

/// The photo with its boxes.
image::Image DrawObjects(const PhotoObjects& photo);
/// Memory that this takes, in bytes.
double DrawingBytes(const PhotoObjects& photo);

/// The ids of photos in a file of results: the numbers in their names ("000000000139.jpg": 139) if every name is a
/// number and all differ, else their places in the list from 1; `note` then names the first photo that is the cause.
std::vector<int64_t> CocoImageIds(std::span<const std::filesystem::path> files, const Note& note);

/// Results of one photo. category_ids: the category of each class; objects of classes without one are left out. Empty:
/// ids are the indices of the classes.
std::vector<CocoDetection> ToCoco(const PhotoObjects& photo, int64_t image_id,
                                  std::span<const std::optional<int64_t>> category_ids);

}  // namespace qkv::app
