// The protocol of immich's machine-learning service, for its search: vectors of photos and of words.
#include "qkv/app/open/json_line.h"
#include "qkv/io/float_list.h"
#include "qkv/server/images.h"
#include "qkv/server/photo_library_request.h"
#include "qkv/server/routes.h"
#include "qkv/server/vectors.h"

namespace qkv::server {
namespace {

// Faces and text in photos need other models; immich then asks the next of its servers.
void RequireSearch(const LibraryTask& task) {
  if (task.task == "clip" && (task.type == "visual" || task.type == "textual")) return;
  throw HttpError(
      422, "invalid_request_error",
      FormatShown("{} ({}): this server has search (clip) alone; switch the other off in immich's settings, "
                  "or give it the address of its own service too, behind this one's",
                  task.task, task.type));
}

// The model for a task; it embeds photos and words in one space.
std::shared_ptr<const LoadedModel> SearchModel(Context& context, Call& call, const LibraryTask& task) {
  auto model = context.ModelFor(call, task.model);
  if (model->towers() != nullptr) return model;
  throw HttpError(422, "invalid_request_error",
                  FormatShown("clip: model {} gives no vectors that photos and words share; choose CLIP or SigLIP in "
                              "immich's settings",
                              model->id()));
}

HttpResponse Predict(Context& context, Call& call) {
  const LibraryRequest request = ParseLibraryRequest(call.request());
  for (const LibraryTask& task : request.tasks) RequireSearch(task);
  if (!request.tasks.empty()) SearchModel(context, call, request.tasks[0]);  // before its image takes memory
  io::Json answer = io::Json::object();
  image::Image photo;
  if (request.image) {
    photo = context.Decode(call, std::as_bytes(std::span(*request.image)), "image");
    answer["imageHeight"] = photo.height();
    answer["imageWidth"] = photo.width();
  }
  for (const LibraryTask& task : request.tasks) {
    const bool visual = task.type == "visual";
    if (visual != request.image.has_value()) {
      BadRequest(visual ? "clip (visual): expected a field image" : "clip (textual): expected a field text");
    }
    const auto model = SearchModel(context, call, task);
    std::vector<std::vector<float>> vectors;
    if (visual) {
      std::vector<Tensor<float>> pixels;
      pixels.push_back(context.Pixels(call, *model->image(), photo));
      vectors = ImageVectors(context, call, model, std::move(pixels), {"image"});
    } else {
      vectors =
          EmbedTexts(context, call, model, ReadTexts(context, call, *model, {std::string(*request.text)})).vectors;
    }
    // A list as a text: the original passes it to the database unchanged.
    answer[task.task] = app::JsonLine(io::FloatList(vectors[0]));
  }
  return {.body = app::JsonLine(answer)};
}

}  // namespace

void AddPhotoLibraryRoutes(Router& router, Context& context) {
  router.Add({"GET", "/ping", [](Call&) { return HttpResponse{.type = "text/plain; charset=utf-8", .body = "pong"}; },
              /*open=*/true, /*runs_inline=*/true});
  router.Add({"POST", "/predict", [&context](Call& call) { return Predict(context, call); }});
}

}  // namespace qkv::server
