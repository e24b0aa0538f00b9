#include "qkv/app/detection/segment.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <unordered_map>

#include "qkv/app/detection/segment_drawing.h"
#include "qkv/app/images/image_reader.h"
#include "qkv/app/open/head_use.h"
#include "qkv/app/open/json_line.h"
#include "qkv/app/open/labels.h"
#include "qkv/core/file.h"
#include "qkv/core/lines.h"
#include "qkv/core/memory.h"
#include "qkv/image/encode.h"
#include "qkv/model/blocks/finite.h"
#include "qkv/model/vision/where_not_finite.h"

namespace qkv::app {
namespace {

io::Json BoxJson(const PixelBox& box) { return {box.left, box.top, box.right - box.left, box.bottom - box.top}; }

// The photo's place in the model's input, and the size of its masks.
MaskGeometry GeometryOf(const model::Model& model, const image::Image& photo, const Shape& input) {
  const model::VitConfig& c = model.config();
  MaskGeometry g;
  g.input_height = input[1], g.input_width = input[2];
  g.mask_height = c.mask_side(input[1] / c.patch_height), g.mask_width = c.mask_side(input[2] / c.patch_width);
  const image::ResizedSize seen = image::SizeAfterResize(model.preprocess(), photo.height(), photo.width());
  g.seen_height = seen.height, g.seen_width = seen.width;
  g.height = photo.height(), g.width = photo.width();
  return g;
}

// Bytes of the model's input for a photo, and of the photo converted to the model's channels.
int64_t InputBytes(const model::Model& model, const image::Image& photo, const Shape& input) {
  const int64_t channels = model.preprocess().channels;
  return input.size() * static_cast<int64_t>(sizeof(float)) +
         (photo.channels() == channels ? 0 : photo.height() * photo.width() * channels);
}

// 16-bit or 8-bit grey.
std::string EncodeGreyIds(View<const int32_t> ids, int32_t greatest) {
  if (greatest > 255) {
    auto deep = Tensor<uint16_t>::Uninitialised(ids.shape());
    for (int64_t i = 0; i < ids.size(); ++i) deep[i] = static_cast<uint16_t>(ids.data()[i]);
    return image::EncodeDeepPng(deep);
  }
  image::Image grey{Tensor<uint8_t>::Uninitialised({ids.dim(0), ids.dim(1), 1})};
  for (int64_t i = 0; i < ids.size(); ++i) grey.pixels[i] = static_cast<uint8_t>(ids.data()[i]);
  return image::EncodePng(grey);
}

std::string EncodeRgbIds(View<const int32_t> ids) {
  image::Image colours{Tensor<uint8_t>::Uninitialised({ids.dim(0), ids.dim(1), 3})};
  for (int64_t i = 0; i < ids.size(); ++i) {
    for (int64_t c = 0; c < 3; ++c) {
      colours.pixels[3 * i + c] = static_cast<uint8_t>(ids.data()[i] >> (8 * c) & 255);
    }
  }
  return image::EncodePng(colours);
}

}  // namespace

io::Json ToJson(const PhotoSegments& photo) {
  io::Json json = {{"path", photo.path},
                   {"task", Name(photo.task)},
                   {"height", photo.photo.height()},
                   {"width", photo.photo.width()},
                   {"segments", io::Json::array()}};
  for (size_t i = 0; i < photo.segmentation.segments.size(); ++i) {
    const app::Segment& segment = photo.segmentation.segments[i];
    io::Json one = {
        {"id", segment.id},     {"index", segment.index},       {"label", ShownLabel(photo.labels[i], segment.index)},
        {"area", segment.area}, {"bbox", BoxJson(segment.box)}, {"segmentation", ToJson(segment.mask)}};
    if (segment.token >= 0) one["score"] = segment.score, one["token"] = segment.token;
    json["segments"].push_back(std::move(one));
  }
  return json;
}

SegmentTask DefaultTask(const model::Model& model) {
  return model.preprocess().squares ? SegmentTask::kSemantic : SegmentTask::kPanoptic;
}

std::vector<int64_t> ParseClasses(std::string_view text, const model::Model& model, std::string_view option) {
  const std::vector<std::string>& labels = model.labels();
  const int64_t count = model.config().mask_classes;
  std::unordered_map<std::string_view, int64_t> by_label;
  for (size_t i = 0; i < labels.size(); ++i) by_label.emplace(labels[i], static_cast<int64_t>(i));
  by_label.erase("");
  std::vector<bool> given(static_cast<size_t>(std::max(count, std::ssize(labels))));
  std::vector<int64_t> classes;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view name = Trim(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
    int64_t index = 0;
    if (const auto label = by_label.find(name); label != by_label.end()) {
      index = label->second;
    } else {
      const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), index);
      Require(error == std::errc() && end == name.data() + name.size() && index >= 0 && index < count,
              "{}: \"{}\" is no class of the model: expected a name, or an index from 0 to {} (see qkv info --json)",
              option, name, count - 1);
    }
    if (!given[static_cast<size_t>(index)]) classes.push_back(index);
    given[static_cast<size_t>(index)] = true;
  }
  return classes;
}

Segmenter::Segmenter(const model::Model& model, const SegmentRules& rules) : model_(model), rules_(rules) {
  const model::VitConfig& c = model.config();
  Require(c.heads() == model::HeadKind::kMasks, "segment: the model ({}) has no heads for masks; expected EoMT; {}",
          c.architecture, UseOfHeads(c));
  Require(c.channels == 1 || c.channels == 3, "segment: the model takes {} channels, images have 1 or 3", c.channels);
  Require(!model.preprocess().squares || rules.task == SegmentTask::kSemantic,
          "segment: the model splits photos into squares, which is for --task semantic only, got {}", Name(rules.task));
}

PhotoSegments Segmenter::Segment(const std::filesystem::path& file, const image::DecodeOptions& decode) {
  image::Image photo;
  ReadImage(file, decode, decoding_, photo);
  return Segment(std::move(photo), file.native());
}

void Segmenter::Run(View<const float> pixels, int64_t i, const std::string& path) {
  const View<float> classes = classes_.view().slice(0, i, i + 1), masks = masks_.view().slice(0, i, i + 1);
  model_.Forward(pixels, workspace_, {.mask_classes = classes, .masks = masks});
  for (const View<const float>& output : {View<const float>(classes), View<const float>(masks)}) {
    if (model::FirstNotFinite(output) < 0) continue;
    throw model::AnswerError(
        FormatShown("{}: the model's answer holds NaN or infinity, expected finite numbers; they begin in {}", path,
                    model::WhereNotFinite(model_.vit(), pixels)));
  }
}

PhotoSegments Segmenter::Segment(image::Image photo, const std::string& path, const SegmentSteps& steps) {
  const model::VitConfig& c = model_.config();
  const Shape input = model_.PixelsShape(photo);
  const MaskGeometry geometry = GeometryOf(model_, photo, input);
  std::vector<int64_t> starts = {0};
  if (model_.preprocess().squares) starts = image::Squares(model_.preprocess(), photo.height(), photo.width());
  const int64_t count = std::ssize(starts), Q = c.query_tokens;
  // Checked before the model runs: a long photo has many squares.
  const double of_square =
      static_cast<double>(Q) * (static_cast<double>(geometry.mask_height) * static_cast<double>(geometry.mask_width) +
                                static_cast<double>(c.mask_classes + 1));
  const double of_outputs = sizeof(float) * static_cast<double>(count) * of_square;
  const double of_map = SegmentationBytes(rules_.task, geometry, Q, c.mask_classes);
  RequireMemory(of_outputs + of_map, fmt::format("segment: {} masks of {} squares, and the map of {} x {} pixels", Q,
                                                 count, geometry.width, geometry.height));
  Tensor<float> pixels;
  std::vector<MaskOutputs> outputs;
  for (int64_t i = 0; i < count; ++i) {
    steps.photo([&] {
      if (i == 0) {
        steps.reserve(static_cast<int64_t>(of_outputs) + InputBytes(model_, photo, input));
        classes_.Reuse({count, Q, c.mask_classes + 1});
        masks_.Reuse({count, Q, geometry.mask_height, geometry.mask_width});
        pixels = Tensor<float>::Uninitialised({1, input[0], input[1], input[2]});
      }
      if (model_.preprocess().squares) {
        model_.SquarePixels(photo, starts[static_cast<size_t>(i)], decoding_, pixels.view()[0]);
      } else {
        model_.Pixels(photo, decoding_, pixels.view()[0]);
      }
    });
    steps.model([&] { Run(pixels, i, path); });
    outputs.push_back({classes_.view()[i], masks_.view()[i]});
  }
  PhotoSegments result{path, std::move(photo), rules_.task, {}, {}};
  steps.photo([&] {
    steps.reserve(static_cast<int64_t>(of_map));
    result.segmentation = rules_.task == SegmentTask::kSemantic ? FindRegions(outputs, starts, geometry)
                                                                : FindSegments(outputs.front(), geometry, rules_);
  });
  for (const app::Segment& segment : result.segmentation.segments) {
    const auto index = static_cast<size_t>(segment.index);
    result.labels.push_back(index < model_.labels().size() ? model_.labels()[index] : "");
  }
  return result;
}

int SegmentAll(const model::Model& model, const ImageList& images, const SegmentOptions& options,
               const std::function<void(size_t file, const PhotoSegments&)>& use) {
  Segmenter segmenter(model, options.rules);
  return ForEachFile(
      options.pipeline, images,
      [&](const std::filesystem::path& file) { return segmenter.Segment(file, options.pipeline.decode); }, use);
}

image::Image DrawSegments(const PhotoSegments& photo) {
  std::vector<SegmentLabel> labels;
  for (size_t i = 0; i < photo.segmentation.segments.size(); ++i) {
    const app::Segment& segment = photo.segmentation.segments[i];
    const std::string& label = photo.labels[i];
    labels.push_back({ShownLabel(label, segment.index), segment.token < 0 ? "" : fmt::format("{:.2f}", segment.score)});
  }
  return DrawSegmentation(photo.photo, photo.segmentation, labels);
}

double DrawingBytes(const PhotoSegments& photo) { return SegmentationDrawingBytes(photo.photo); }

std::string EncodeIds(const PhotoSegments& photo) {
  const Tensor<int32_t>& ids = photo.segmentation.ids;
  if (photo.task == SegmentTask::kPanoptic) return EncodeRgbIds(ids);
  const int32_t greatest = *std::max_element(ids.data(), ids.data() + ids.size());
  Require(greatest <= UINT16_MAX, "segment: id {} does not fit 16 bits", greatest);
  return EncodeGreyIds(ids, greatest);
}

void CocoSegments::Add(const PhotoSegments& photo, int64_t image_id, const std::filesystem::path& ids) {
  if (panoptic_) {
    io::Json segments = io::Json::array();
    for (const app::Segment& segment : photo.segmentation.segments) {
      segments.push_back({{"id", segment.id},
                          {"category_id", segment.index},
                          {"area", segment.area},
                          {"bbox", BoxJson(segment.box)},
                          {"iscrowd", 0}});
    }
    images_.push_back({{"id", image_id},
                       {"file_name", std::filesystem::path(photo.path).filename().string()},
                       {"height", photo.photo.height()},
                       {"width", photo.photo.width()}});
    annotations_.push_back(
        {{"image_id", image_id}, {"file_name", ids.filename().string()}, {"segments_info", std::move(segments)}});
    return;
  }
  for (const app::Segment& segment : photo.segmentation.segments) {
    annotations_.push_back({{"image_id", image_id},
                            {"category_id", segment.index},
                            {"segmentation", ToJson(segment.mask)},
                            {"bbox", BoxJson(segment.box)},
                            {"score", segment.score}});
  }
}

void CocoSegments::Write(const std::filesystem::path& file) const {
  const auto write_list = [](FileSink& sink, const std::vector<io::Json>& list) {
    for (size_t i = 0; i < list.size(); ++i) sink.Write((i > 0 ? ",\n" : "\n") + JsonLine(list[i]));
  };
  WriteFile(file, [&](FileSink& sink) {
    if (!panoptic_) {
      sink.Write("[");
      write_list(sink, annotations_);
      sink.Write("\n]\n");
      return;
    }
    std::vector<io::Json> categories;
    for (size_t i = 0; i < labels_.size(); ++i) categories.push_back({{"id", i}, {"name", labels_[i]}});
    sink.Write("{\"images\": [");
    write_list(sink, images_);
    sink.Write("\n], \"categories\": [");
    write_list(sink, categories);
    sink.Write("\n], \"annotations\": [");
    write_list(sink, annotations_);
    sink.Write("\n]}\n");
  });
}

}  // namespace qkv::app
