// Finds things in photos: boxes by a detector, masks by a segmentation model. The engine runs the model; work over a
// whole photo, on a mask or a drawing, runs on the request's thread, when its client has its turn at a core.
#include "qkv/app/detection/detect.h"
#include "qkv/app/detection/segment.h"
#include "qkv/app/open/json_line.h"
#include "qkv/image/encode.h"
#include "qkv/server/images.h"
#include "qkv/server/routes.h"

namespace qkv::server {
namespace {

constexpr Field Share(std::string_view name, std::string_view meaning) {
  return {.name = name, .type = Field::Type::kNumber, .meaning = meaning, .low = 0, .high = 1};
}

constexpr Field kFormatField = {
    .name = "format", .meaning = "json, or png: the photo with what was found drawn on it", .choices = "json|png"};
constexpr Field kThreshold = Share("threshold", "Least score (0.5)");
constexpr Field kSegmentThreshold = Share("threshold", "Least score (0.8)");
constexpr Field kMaskThreshold = Share("mask_threshold", "Panoptic: least probability of a segment's pixels (0.5)");
constexpr Field kOverlap = Share("overlap", "Panoptic: least share of a mask that is left beside better ones (0.8)");
const std::vector<Field> kDetectFields = {kImageField, kThreshold, kFormatField};
const std::vector<Field> kSegmentFields = {
    kImageField,
    {.name = "task", .choices = "semantic|instance|panoptic"},
    kSegmentThreshold,
    kMaskThreshold,
    kOverlap,
    {.name = "stuff", .meaning = "Panoptic: classes whose segments are one, by names or indices with commas"},
    kFormatField};

// True if the answer is a picture.
bool AsksForPicture(const RequestInput& input) {
  const bool picture = input.Choice(kFormatField) == "png";
  if (picture && input.images().size() > 1) BadRequest("format: a png is of one image; ask for json, or send one");
  return picture;
}

// Memory of one photo, counted against the memory for images, until the next photo.
class PhotoMemory {
 public:
  explicit PhotoMemory(const Call& call) : call_(call) {}
  ~PhotoMemory() { call_.memory->Release(held_); }
  PhotoMemory(const PhotoMemory&) = delete;
  PhotoMemory& operator=(const PhotoMemory&) = delete;

  void Reserve(int64_t bytes) {
    call_.memory->Reserve(bytes);
    held_ += bytes;
  }
  // Adds bytes that another function has left reserved.
  void Take(int64_t bytes) { held_ += bytes; }

 private:
  const Call& call_;
  int64_t held_ = 0;
};

// Draws the results as a picture.
template <typename Found>
HttpResponse DrawnAnswer(Context& context, const Call& call, Found found, image::Image (*draw)(const Found&),
                         PhotoMemory& memory) {
  HttpResponse response{.type = "image/png"};
  context.Prepare(call, [&] {
    memory.Reserve(static_cast<int64_t>(app::DrawingBytes(found)));
    const image::Image picture = draw(found);
    found = {};
    memory.Reserve(image::PngBytes(picture.height(), picture.width() * picture.channels()));
    response.body = image::EncodePng(picture);
  });
  return response;
}

// Handles one photo after the other, so that one at a time is in memory: answers with `find` for each, or with the
// picture that `draw` makes of the first.
template <typename Found, typename Find>
HttpResponse AnswerPhotos(Context& context, const Call& call, const RequestInput& input, const LoadedModel& model,
                          Find find, image::Image (*draw)(const Found&)) {
  const bool picture = AsksForPicture(input);
  io::Json data = io::Json::array();
  for (const Upload& upload : input.RequireImages()) {
    PhotoMemory memory(call);
    image::Image photo = context.Decode(call, upload.data(), upload.name());
    memory.Take(Context::BytesOf(photo));
    Found found = find(std::move(photo), upload.name(), memory);
    if (picture) return DrawnAnswer(context, call, std::move(found), draw, memory);
    context.Prepare(call, [&] {
      io::Json json = app::ToJson(found);
      json.erase("path");
      json["index"] = data.size();
      data.push_back(std::move(json));
    });
  }
  return {.body = app::JsonLine({{"object", "list"}, {"model", model.id()}, {"data", data}})};
}

HttpResponse Detect(Context& context, Call& call) {
  const RequestInput input(call.request(), NamesOf(kDetectFields));
  const double threshold = input.Number(kThreshold, 0.5);
  input.RequireImages();
  const auto model = context.ModelFor(call, input.Text("model"), kDetect);
  app::Detector detector(*model->image(), threshold);
  const auto find = [&](image::Image photo, const std::string& name, PhotoMemory& memory) {
    const Tensor<float> pixels = context.Pixels(call, *model->image(), photo);
    memory.Take(pixels.size() * static_cast<int64_t>(sizeof(float)));
    app::PhotoObjects found;
    context.Compute({model->id(), "detection"}, call, [&] { found = detector.Detect(std::move(photo), pixels, name); });
    return found;
  };
  return AnswerPhotos(context, call, input, *model, find, app::DrawObjects);
}

app::SegmentRules RulesOf(const RequestInput& input, const model::Model& model) {
  app::SegmentRules rules{.task = app::DefaultTask(model)};
  if (input.Has("task")) {
    const std::optional<app::SegmentTask> task = app::FindSegmentTask(input.Text("task"));
    if (!task) BadRequest("task: expected semantic, instance or panoptic");
    rules.task = *task;
  }
  rules.threshold = input.Number(kSegmentThreshold, rules.threshold);
  rules.mask_threshold = input.Number(kMaskThreshold, rules.mask_threshold);
  rules.overlap = input.Number(kOverlap, rules.overlap);
  rules.stuff = app::ParseClasses(input.Text("stuff"), model, "stuff");
  return rules;
}

HttpResponse Segment(Context& context, Call& call) {
  const RequestInput input(call.request(), NamesOf(kSegmentFields));
  input.RequireImages();
  const auto model = context.ModelFor(call, input.Text("model"), kSegment);
  const model::Model& encoder = *model->image();
  app::Segmenter segmenter(encoder, RulesOf(input, encoder));
  const auto find = [&](image::Image photo, const std::string& name, PhotoMemory& memory) {
    const app::SegmentSteps steps = {.photo = [&](const std::function<void()>& work) { context.Prepare(call, work); },
                                     .model =
                                         [&](const std::function<void()>& work) {
                                           context.Compute({model->id(), "segmentation"}, call, work);
                                         },
                                     .reserve = [&](int64_t bytes) { memory.Reserve(bytes); }};
    return segmenter.Segment(std::move(photo), name, steps);
  };
  return AnswerPhotos(context, call, input, *model, find, app::DrawSegments);
}

}  // namespace

void AddPhotoRoutes(Router& router, Context& context) {
  router.Add({.method = "POST",
              .pattern = "/v1/detect",
              .handler = [&context](Call& call) { return Detect(context, call); },
              .fields = kDetectFields});
  router.Add({.method = "POST",
              .pattern = "/v1/segment",
              .handler = [&context](Call& call) { return Segment(context, call); },
              .fields = kSegmentFields});
}

}  // namespace qkv::server
