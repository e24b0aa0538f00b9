// What a model does with images.
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <utility>

#include "python/src/images.h"
#include "python/src/model.h"
#include "python/src/objects.h"
#include "python/src/writing.h"
#include "qkv/app/capture/capture.h"
#include "qkv/app/detection/detect.h"
#include "qkv/app/detection/mask_rle.h"
#include "qkv/app/detection/segment.h"
#include "qkv/app/images/image_reader.h"
#include "qkv/app/texts/zero_shot.h"
#include "qkv/app/vectors/embed.h"

namespace qkv::python {
namespace {

// How the images of a call are read, and what happens to those that cannot be.
struct Reading {
  bool skip = false;  // leave them out, with a note
  int batch = 0;
  nb::object progress = nb::none();
};

// The options of a call, whose remarks and progress go to `call`.
app::PipelineOptions PipelineOf(Call& call, const Reading& reading) {
  app::PipelineOptions options{.batch = reading.batch, .note = call.note()};
  if (!reading.skip) options.note = [](const std::string& why) { throw Error(why); };
  options.advance = call.Progress(reading.progress);
  return options;
}

nb::list TopOf(const app::Classification& image) {
  nb::list top;
  for (const model::Prediction& one : image.top) {
    top.append(nb::make_tuple(one.index, nb::str(one.label.data(), one.label.size()), one.score));
  }
  return top;
}

nb::object Vector(const std::vector<float>& values) {
  auto tensor = Tensor<float>::Uninitialised(Shape({std::ssize(values)}));
  std::ranges::copy(values, tensor.data());
  return ToArray(std::move(tensor));
}

nb::list Classify(const Model& model, const nb::list& items, int64_t top, bool logits,
                  const std::optional<std::vector<std::string>>& labels, const std::vector<std::string>& templates,
                  const Reading& reading) {
  const Images images(items);
  Call call(model.threads());
  const app::ClassifyOptions options{.top = top, .logits = logits, .pipeline = PipelineOf(call, reading)};
  std::vector<app::Classification> all;
  const auto use = [&](std::span<const app::Classification> some) { all.insert(all.end(), some.begin(), some.end()); };
  if (labels) {
    const model::TwoTowerModel& towers = model.Towers("classify");
    const app::Prompts prompts = app::MakePrompts(*labels, templates, "prompts", "templates");
    call.Run([&] {
      const Tensor<float> classes = app::EmbedPrompts(model.TowerTexts("classify"), prompts, call.note());
      app::ClassifyByPrompts(towers, prompts, classes, images.list(), options, use);
    });
  } else {
    Require(app::kClassify.has(model.facts()) || !model.facts().has_text_tower(),
            "classify: this model compares images with words: give the classes, prompts=[\"a cat\", \"a dog\"]");
    const model::Model& classifier = model.Images("classify", app::kClassify);
    call.Run([&] { app::Classify(classifier, images.list(), options, use); });
  }
  nb::list results;
  for (const app::Classification& one : all) {
    results.append(nb::make_tuple(one.file, TopOf(one), logits ? Vector(one.logits) : nb::none()));
  }
  return results;
}

// The vectors as rows of one array, and which images they are of.
std::pair<nb::object, std::vector<size_t>> EmbedImages(const Model& model, const nb::list& items,
                                                       const std::string& pool, bool unit_length,
                                                       const Reading& reading) {
  const model::Model& encoder = model.Images("embed", app::kEmbedImages);
  const Images images(items);
  Call call(model.threads());
  const app::EmbedOptions options{.unit_length = unit_length,
                                  .pooling = app::ParsePooling(pool.empty() ? model.facts().pool : pool, "pool"),
                                  .pipeline = PipelineOf(call, reading)};
  Tensor<float> rows;
  std::vector<size_t> files;
  call.Run([&] {
    app::Embed(encoder, images.list(), options, [&](std::span<const app::Embedding> some) {
      for (const app::Embedding& one : some) {
        std::vector<int64_t> extents = {static_cast<int64_t>(images.size())};
        extents.insert(extents.end(), one.shape.extents().begin(), one.shape.extents().end());
        if (rows.empty()) rows = Tensor<float>(Shape(extents));
        Require(rows.shape() == Shape(extents),
                "embed: {} has other numbers of tokens than the image before: embed it alone", one.path);
        std::ranges::copy(one.values, rows.view().at(std::ssize(files)));
        files.push_back(one.file);
      }
    });
  });
  if (rows.empty()) rows = Tensor<float>({0, encoder.EmbeddingWidth()});
  std::vector<int64_t> extents(rows.shape().extents().begin(), rows.shape().extents().end());
  if (extents[0] != std::ssize(files)) {
    extents[0] = std::ssize(files);
    auto kept = Tensor<float>::Uninitialised(Shape(extents));
    std::copy_n(rows.data(), kept.size(), kept.data());
    rows = std::move(kept);
  }
  return {ToArray(std::move(rows)), std::move(files)};
}

nb::object Pixels(const Model& model, const nb::list& items) {
  const model::Model& encoder = model.Images("preprocess", app::kAttendImage);
  const Images images(items);
  Call call(model.threads());
  const app::PipelineOptions options = PipelineOf(call, {});  // with the interpreter's lock
  app::CollectedPixels pixels =
      call.Run([&] { return app::CollectPixels(options, images.list(), encoder, "preprocess"); });
  return ToArray(std::move(pixels.values));
}

using PixelArray = nb::ndarray<const float, nb::ndim<4>, nb::c_contig, nb::device::cpu>;

View<const float> ViewOf(const PixelArray& array, const model::VitConfig& config) {
  Require(array.shape(0) > 0 && static_cast<int64_t>(array.shape(1)) == config.channels,
          "forward: pixels [{}, {}, {}, {}], expected [images, {}, height, width]", array.shape(0), array.shape(1),
          array.shape(2), array.shape(3), config.channels);
  return {array.data(), Shape({static_cast<int64_t>(array.shape(0)), static_cast<int64_t>(array.shape(1)),
                               static_cast<int64_t>(array.shape(2)), static_cast<int64_t>(array.shape(3))})};
}

// All outputs, by the names of `qkv run`.
nb::dict Forward(const Model& model, const PixelArray& array, const std::vector<int64_t>& hidden,
                 const std::vector<int64_t>& attention, const AskedActivations& asked) {
  constexpr int64_t kTogether = 8;
  const model::Model& encoder = model.Images("forward", app::kAttendImage);
  const View<const float> pixels = ViewOf(array, encoder.config());
  Call call(model.threads());
  const app::CaptureRequest request{hidden, attention, asked.For(model, call)};
  const int64_t together = request.activations.empty() ? kTogether : pixels.dim(0);
  return ToArrays(call.Run([&] {
    app::Captured captured = app::Allocate(encoder, request, pixels.dim(0), pixels.dim(2), pixels.dim(3));
    model::Workspace<float> workspace;
    for (int64_t first = 0; first < pixels.dim(0); first += together) {
      const int64_t end = std::min(pixels.dim(0), first + together);
      app::CaptureBatch(encoder, pixels.slice(0, first, end), request, first, workspace, captured);
    }
    return captured;
  }));
}

nb::list Detect(const Model& model, const nb::list& items, double threshold, bool draw, const Reading& reading) {
  const model::Model& detector_model = model.Images("detect", app::kDetect);
  const Images images(items);
  Call call(model.threads());
  struct Found {
    size_t file;
    io::Json objects;
    Tensor<uint8_t> picture;
  };
  const app::PipelineOptions options = PipelineOf(call, reading);
  std::vector<Found> all;
  call.Run([&] {
    app::Detector detector(detector_model, threshold);
    ForEachImage(images, reading.skip, options, [&](size_t i) {
      image::Image photo = images.Decode(i, options.decode);
      const Tensor<float> pixels = detector_model.Pixels(photo);
      const app::PhotoObjects found = detector.Detect(std::move(photo), pixels, images.name(i));
      all.push_back({i, ToJson(found), draw ? app::DrawObjects(found).pixels : Tensor<uint8_t>()});
    });
  });
  nb::list results;
  for (Found& one : all) {
    results.append(
        nb::make_tuple(one.file, ToPython(one.objects), draw ? ToArray(std::move(one.picture)) : nb::none()));
  }
  return results;
}

// What the caller leaves out stays as app::SegmentRules has it.
app::SegmentRules RulesOf(const model::Model& model, const std::string& task, std::optional<double> threshold,
                          std::optional<double> mask_threshold, std::optional<double> overlap,
                          const std::vector<std::string>& stuff) {
  app::SegmentRules rules;
  rules.task = app::DefaultTask(model);
  if (!task.empty()) {
    const std::optional<app::SegmentTask> found = app::FindSegmentTask(task);
    Require(found.has_value(), "segment: task: expected semantic, instance or panoptic, got {}", task);
    rules.task = *found;
  }
  const bool panoptic = rules.task == app::SegmentTask::kPanoptic;
  Require(!threshold || rules.task != app::SegmentTask::kSemantic,
          "segment: threshold is for instances and panoptic segments; every pixel has a semantic one");
  Require(panoptic || (!mask_threshold && !overlap && stuff.empty()),
          "segment: mask_threshold, overlap and stuff are for task=\"panoptic\", got {}", app::Name(rules.task));
  rules.threshold = threshold.value_or(rules.threshold);
  rules.mask_threshold = mask_threshold.value_or(rules.mask_threshold);
  rules.overlap = overlap.value_or(rules.overlap);
  for (const std::string& name : stuff) {
    for (const int64_t index : app::ParseClasses(name, model, "stuff")) rules.stuff.push_back(index);
  }
  return rules;
}

nb::list Segment(const Model& model, const nb::list& items, const std::string& task, std::optional<double> threshold,
                 std::optional<double> mask_threshold, std::optional<double> overlap,
                 const std::vector<std::string>& stuff, bool draw, const Reading& reading) {
  const model::Model& masks = model.Images("segment", app::kSegment);
  const Images images(items);
  Call call(model.threads());
  struct Found {
    size_t file;
    io::Json segments;
    Tensor<int32_t> ids;
    Tensor<uint8_t> picture;
  };
  const app::PipelineOptions options = PipelineOf(call, reading);
  const app::SegmentRules rules = RulesOf(masks, task, threshold, mask_threshold, overlap, stuff);
  std::vector<Found> all;
  call.Run([&] {
    app::Segmenter segmenter(masks, rules);
    ForEachImage(images, reading.skip, options, [&](size_t i) {
      app::PhotoSegments found = segmenter.Segment(images.Decode(i, options.decode), images.name(i));
      Tensor<uint8_t> picture;
      if (draw) picture = app::DrawSegments(found).pixels;
      io::Json json = ToJson(found);
      all.push_back({i, std::move(json), std::move(found.segmentation.ids), std::move(picture)});
    });
  });
  nb::list results;
  for (Found& one : all) {
    results.append(nb::make_tuple(one.file, ToPython(one.segments), ToArray(std::move(one.ids)),
                                  draw ? ToArray(std::move(one.picture)) : nb::none()));
  }
  return results;
}

nb::list Caption(const Model& model, const nb::list& items, const nb::dict& choices, const Reading& reading) {
  const app::Captioner& captioner = model.Captions("caption");
  const Images images(items);
  Call call(model.threads());
  const app::CaptionOptions options{.settings = ChoicesOf(choices).Over(captioner.Settings()),
                                    .pipeline = PipelineOf(call, reading)};
  std::vector<app::Caption> all;
  call.Run([&] {
    captioner.Write(images.list(), options,
                    [&](std::span<const app::Caption> some) { all.insert(all.end(), some.begin(), some.end()); });
  });
  nb::list results;
  for (const app::Caption& one : all) results.append(nb::make_tuple(one.file, ToPython(ToJson(one))));
  return results;
}

}  // namespace

void BindMasks(nb::module_& module) {
  using namespace nb::literals;
  module.def(
      "decode_mask",
      [](int64_t height, int64_t width, const std::string& counts) {
        Call call;
        return ToArray(call.Run([&] { return app::DecodeMask({height, width, app::ExpandCounts(counts)}); }));
      },
      "height"_a, "width"_a, "counts"_a, "COCO's compressed run lengths as [height, width] of 0 and 1.");
}

void BindImages(ModelClass& model) {
  using namespace nb::literals;
  model.def(
      "classify",
      [](const Model& self, const nb::list& images, int64_t top, bool logits,
         const std::optional<std::vector<std::string>>& prompts, const std::vector<std::string>& templates, bool skip,
         int batch, nb::object progress) {
        return Classify(self, images, top, logits, prompts, templates, {skip, batch, std::move(progress)});
      },
      "images"_a, "top"_a, "logits"_a, "prompts"_a.none(), "templates"_a, "skip"_a, "batch"_a, "progress"_a.none(),
      "(index of the image, [(class, label, score)], logits or None) for each image.");
  model.def(
      "embed_images",
      [](const Model& self, const nb::list& images, const std::string& pool, bool unit_length, bool skip, int batch,
         nb::object progress) {
        return EmbedImages(self, images, pool, unit_length, {skip, batch, std::move(progress)});
      },
      "images"_a, "pool"_a, "unit_length"_a, "skip"_a, "batch"_a, "progress"_a.none(),
      "The vectors as an array, and the indices of their images.");
  model.def("pixels", &Pixels, "images"_a, "[images, channels, height, width]");
  model.def(
      "forward",
      [](const Model& self, const PixelArray& pixels, const std::vector<int64_t>& hidden,
         const std::vector<int64_t>& attention, std::vector<std::string> kept, std::vector<std::string> changed,
         nb::object change) {
        return Forward(self, pixels, hidden, attention, {std::move(kept), std::move(changed), std::move(change)});
      },
      "pixels"_a, "hidden"_a, "attention"_a, "kept"_a = nb::list(), "changed"_a = nb::list(), "change"_a = nb::none(),
      "All outputs by the names of `qkv run`, and the activations `kept`.");
  model.def(
      "detect",
      [](const Model& self, const nb::list& images, double threshold, bool draw, bool skip, nb::object progress) {
        return Detect(self, images, threshold, draw, {skip, 0, std::move(progress)});
      },
      "images"_a, "threshold"_a, "draw"_a, "skip"_a, "progress"_a.none(),
      "(index of the image, objects, picture or None) for each image.");
  model.def(
      "segment",
      [](const Model& self, const nb::list& images, const std::string& task, std::optional<double> threshold,
         std::optional<double> mask_threshold, std::optional<double> overlap, const std::vector<std::string>& stuff,
         bool draw, bool skip, nb::object progress) {
        return Segment(self, images, task, threshold, mask_threshold, overlap, stuff, draw,
                       {skip, 0, std::move(progress)});
      },
      "images"_a, "task"_a, "threshold"_a.none(), "mask_threshold"_a.none(), "overlap"_a.none(), "stuff"_a, "draw"_a,
      "skip"_a, "progress"_a.none(), "(index of the image, segments, map of ids, picture or None) for each image.");
  model.def(
      "caption",
      [](const Model& self, const nb::list& images, const nb::dict& choices, bool skip, int batch,
         nb::object progress) {
        return Caption(self, images, choices, {skip, batch, std::move(progress)});
      },
      "images"_a, "choices"_a, "skip"_a, "batch"_a, "progress"_a.none(), "(index of the image, text) for each image.");
}

}  // namespace qkv::python
