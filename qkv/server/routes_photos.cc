// Where things are in photos: boxes by a detector, masks by a model of segments.
#include "qkv/app/detect.h"
#include "qkv/app/json_line.h"
#include "qkv/app/segment.h"
#include "qkv/core/serial.h"
#include "qkv/image/encode.h"
#include "qkv/server/images.h"
#include "qkv/server/routes.h"

namespace qkv::server {
namespace {

// True if the answer is a picture.
bool AsksForPicture(const RequestInput& input) {
  const bool picture = input.Choice("format", {"json", "png"}) == "png";
  if (picture && input.images().size() > 1) BadRequest("format: a png is of one image; ask for json, or send one");
  return picture;
}

HttpResponse PngAnswer(const image::Image& picture) { return {.type = "image/png", .body = image::EncodePng(picture)}; }

// One photo after the other, so that one at a time is in memory: answers with what `find` says of each, or with the
// picture that `draw` makes of the first.
template <typename Find, typename Draw>
HttpResponse AnswerPhotos(Context& context, const Call& call, const RequestInput& input, const LoadedModel& model,
                          const char* work, Find find, Draw draw) {
  const bool picture = AsksForPicture(input);
  io::Json data = io::Json::array();
  for (const Upload& upload : input.RequireImages()) {
    image::Image photo = context.Decode(call, upload.data(), upload.name());
    const int64_t bytes = Context::BytesOf(photo);
    decltype(find(std::move(photo), upload.name())) found;
    context.Compute({model.id(), work}, call, [&] { found = find(std::move(photo), upload.name()); });
    if (picture) {
      const SerialLoops serial;
      return PngAnswer(draw(found));
    }
    io::Json json = app::ToJson(found);
    json.erase("path");
    json["index"] = data.size();
    data.push_back(std::move(json));
    call.memory->Release(bytes);
  }
  return {.body = app::JsonLine({{"object", "list"}, {"model", model.id()}, {"data", data}})};
}

HttpResponse Detect(Context& context, Call& call) {
  const RequestInput input(call.request(), {"image", "threshold", "format"});
  const double threshold = input.Number("threshold", 0.5, 0, 1);
  input.RequireImages();
  const auto model = context.ModelFor(call, input.Text("model"), kDetect);
  app::Detector detector(*model->image(), threshold);
  return AnswerPhotos(
      context, call, input, *model, "detection",
      [&](image::Image photo, const std::string& name) { return detector.Detect(std::move(photo), name); },
      app::DrawObjects);
}

app::SegmentRules RulesOf(const RequestInput& input, const model::Model& model) {
  app::SegmentRules rules{.task = app::DefaultTask(model)};
  if (input.Has("task")) {
    const std::optional<app::SegmentTask> task = app::FindSegmentTask(input.Text("task"));
    if (!task) BadRequest("task: expected semantic, instance or panoptic");
    rules.task = *task;
  }
  rules.threshold = input.Number("threshold", rules.threshold, 0, 1);
  rules.mask_threshold = input.Number("mask_threshold", rules.mask_threshold, 0, 1);
  rules.overlap = input.Number("overlap", rules.overlap, 0, 1);
  rules.stuff = app::ParseClasses(input.Text("stuff"), model, "stuff");
  return rules;
}

HttpResponse Segment(Context& context, Call& call) {
  const RequestInput input(call.request(),
                           {"image", "task", "threshold", "mask_threshold", "overlap", "stuff", "format"});
  input.RequireImages();
  const auto model = context.ModelFor(call, input.Text("model"), kSegment);
  const model::Model& encoder = *model->image();
  app::Segmenter segmenter(encoder, RulesOf(input, encoder));
  return AnswerPhotos(
      context, call, input, *model, "segmentation",
      [&](image::Image photo, const std::string& name) { return segmenter.Segment(std::move(photo), name); },
      app::DrawSegments);
}

}  // namespace

void AddPhotoRoutes(Router& router, Context& context) {
  router.Add({"POST", "/v1/detect", [&context](Call& call) { return Detect(context, call); }});
  router.Add({"POST", "/v1/segment", [&context](Call& call) { return Segment(context, call); }});
}

}  // namespace qkv::server
