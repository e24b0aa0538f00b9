#include "qkv/app/detection/detect.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "qkv/app/detection/box_drawing.h"
#include "qkv/app/images/image_reader.h"
#include "qkv/app/open/head_use.h"
#include "qkv/app/open/labels.h"
#include "qkv/model/blocks/finite.h"
#include "qkv/model/vision/where_not_finite.h"
#include "qkv/simd/rows/elementwise.h"

namespace qkv::app {
namespace {

// The number that a file's name is, or nothing.
std::optional<int64_t> NumberInName(const std::filesystem::path& file) {
  const std::string stem = file.stem().string();
  int64_t number = 0;
  const auto [end, error] = std::from_chars(stem.data(), stem.data() + stem.size(), number);
  if (error != std::errc() || end != stem.data() + stem.size() || number < 0) return std::nullopt;
  return number;
}

}  // namespace

io::Json ToJson(const PhotoObjects& photo) {
  io::Json json = {{"path", photo.path},
                   {"height", photo.photo.height()},
                   {"width", photo.photo.width()},
                   {"objects", io::Json::array()}};
  for (const DetectedObject& object : photo.objects) {
    const image::Rect& box = object.box;
    json["objects"].push_back({{"index", object.index},
                               {"label", ShownLabel(object.label, object.index)},
                               {"score", object.score},
                               {"box", {box.left, box.top, box.width, box.height}},
                               {"token", object.token}});
  }
  return json;
}

std::vector<DetectedObject> FindObjects(View<const float> logits, View<const float> boxes, int64_t height,
                                        int64_t width, double threshold, std::span<const std::string> labels) {
  Require(logits.rank() == 2 && logits.dim(1) > 1 && boxes.shape() == Shape({logits.dim(0), 4}) && logits.dense() &&
              boxes.dense(),
          "detect: expected logits [T, classes + 1] and boxes [T, 4], got {} and {}", logits.shape(), boxes.shape());
  const auto down = static_cast<double>(height), across = static_cast<double>(width);
  std::vector<float> scores(static_cast<size_t>(logits.dim(1)));
  std::vector<DetectedObject> objects;
  for (int64_t token = 0; token < logits.dim(0); ++token) {
    std::copy_n(logits.row(token), logits.dim(1), scores.data());
    simd::Softmax(scores.data(), logits.dim(1));
    const auto best = std::max_element(scores.begin(), scores.end() - 1);  // the last is no object
    if (!(*best > threshold)) continue;
    const auto index = best - scores.begin();
    const float* const box = boxes.row(token);
    const double centre_x = box[0], centre_y = box[1], w = box[2], h = box[3];
    objects.push_back({index,
                       static_cast<size_t>(index) < labels.size() ? labels[static_cast<size_t>(index)] : "",
                       *best,
                       {(centre_y - h / 2) * down, (centre_x - w / 2) * across, h * down, w * across},
                       token});
  }
  std::ranges::stable_sort(objects, std::greater(), &DetectedObject::score);
  return objects;
}

Detector::Detector(const model::Model& model, double threshold) : model_(model), threshold_(threshold) {
  const model::VitConfig& c = model.config();
  Require(c.heads() == model::HeadKind::kBoxes, "detect: the model ({}) has no heads for detection; expected YOLOS; {}",
          c.architecture, UseOfHeads(c));
  Require(c.channels == 1 || c.channels == 3, "detect: the model takes {} channels, images have 1 or 3", c.channels);
}

PhotoObjects Detector::Detect(const std::filesystem::path& file, const image::DecodeOptions& decode) {
  image::Image photo;
  ReadImage(file, decode, decoding_, photo);
  const Tensor<float> pixels = model_.Pixels(photo);
  return Detect(std::move(photo), pixels, file.native());
}

PhotoObjects Detector::Detect(image::Image photo, const Tensor<float>& pixels, const std::string& path) {
  const model::VitConfig& c = model_.config();
  logits_.Reuse({1, c.detection_tokens, c.detection_classes + 1});
  boxes_.Reuse({1, c.detection_tokens, 4});
  model_.Forward(pixels, workspace_, {.detection_logits = logits_, .boxes = boxes_});
  for (const Tensor<float>* output : {&logits_, &boxes_}) {
    if (model::FirstNotFinite(*output) < 0) continue;
    throw model::AnswerError(
        FormatShown("{}: the model's answer holds NaN or infinity, expected finite numbers; they begin in {}", path,
                    model::WhereNotFinite(model_.vit(), pixels.view())));
  }
  std::vector<DetectedObject> objects =
      FindObjects(logits_.view()[0], boxes_.view()[0], photo.height(), photo.width(), threshold_, model_.labels());
  return {path, std::move(photo), std::move(objects)};
}

int DetectAll(const model::Model& model, const ImageList& images, const DetectOptions& options,
              const std::function<void(size_t file, const PhotoObjects&)>& use) {
  Detector detector(model, options.threshold);
  return ForEachFile(
      options.pipeline, images,
      [&](const std::filesystem::path& file) { return detector.Detect(file, options.pipeline.decode); }, use);
}

image::Image DrawObjects(const PhotoObjects& photo) {
  std::vector<DrawnBox> boxes;
  for (const DetectedObject& object : photo.objects) {
    const std::string name = ShownLabel(object.label, object.index);
    boxes.push_back({object.box, name, object.score, object.index});
  }
  return DrawBoxes(photo.photo, boxes);
}

double DrawingBytes(const PhotoObjects& photo) {
  return 3 * static_cast<double>(photo.photo.height()) * static_cast<double>(photo.photo.width());
}

std::vector<int64_t> CocoImageIds(std::span<const std::filesystem::path> files, const Note& note) {
  std::vector<int64_t> ids;
  std::set<int64_t> different;
  for (const std::filesystem::path& file : files) {
    const std::optional<int64_t> id = NumberInName(file);
    if (id && different.insert(*id).second) {
      ids.push_back(*id);
      continue;
    }
    Notify(note, FormatShown("{}: its name is no number{}; image ids are the places of the photos, 1 to {}",
                             file.string(), id ? " of its own" : "", files.size()));
    break;
  }
  if (ids.size() == files.size()) return ids;
  ids.clear();
  for (int64_t place = 1; place <= std::ssize(files); ++place) ids.push_back(place);
  return ids;
}

std::vector<CocoDetection> ToCoco(const PhotoObjects& photo, int64_t image_id,
                                  std::span<const std::optional<int64_t>> category_ids) {
  std::vector<CocoDetection> detections;
  for (const DetectedObject& object : photo.objects) {
    std::optional<int64_t> category = object.index;
    if (!category_ids.empty()) category = category_ids[static_cast<size_t>(object.index)];
    if (category) detections.push_back({image_id, *category, object.box, object.score});
  }
  return detections;
}

}  // namespace qkv::app
