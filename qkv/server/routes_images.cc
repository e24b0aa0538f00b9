// What images show: classes of the model's own, or in words.
#include <algorithm>

#include "qkv/app/classify.h"
#include "qkv/app/json_line.h"
#include "qkv/app/zero_shot.h"
#include "qkv/model/finite.h"
#include "qkv/server/images.h"
#include "qkv/server/routes.h"
#include "qkv/server/tasks.h"

namespace qkv::server {
namespace {

constexpr int64_t kMaxTop = 1 << 20;
constexpr size_t kMaxTexts = 2048;

// The classes that a request gives in words: a list of labels, or labels separated by commas.
app::Prompts PromptsOf(const RequestInput& input) {
  std::vector<std::string> labels = input.Texts("prompts");
  if (labels.size() == 1) labels = app::SplitAtCommas(labels[0]);
  app::Prompts prompts = app::MakePrompts(std::move(labels), input.Texts("templates"), "prompts", "templates");
  if (prompts.labels.size() > kMaxTexts || prompts.templates.size() > kMaxTexts / prompts.labels.size()) {
    BadRequest("prompts: expected up to 2,048 texts, labels times templates");
  }
  return prompts;
}

// Scores of classes in words: [images, classes].
Tensor<float> ScoreByPrompts(Context& context, const Call& call, const std::shared_ptr<const LoadedModel>& model,
                             const app::Prompts& prompts, const std::vector<Tensor<float>>& pooled) {
  const int64_t width = model->towers()->width(), count = std::ssize(prompts.labels);
  Tensor<float> classes({count, width});
  // A few texts at a time, between which others may be computed and the call may be cancelled.
  const int64_t each = std::ssize(prompts.templates);
  const int64_t together = std::max<int64_t>(1, context.config().batching.most_together / each);
  for (int64_t begin = 0; begin < count; begin += together) {
    const int64_t end = std::min(count, begin + together);
    const app::Prompts some{{prompts.labels.begin() + begin, prompts.labels.begin() + end}, prompts.templates};
    context.Compute({model->id(), "texts"}, call, [&] {
      const Tensor<float> vectors = app::EmbedPrompts(*model->texts(), some);
      std::copy_n(vectors.data(), vectors.size(), classes.view().row(begin));
    });
  }
  Tensor<float> images({std::ssize(pooled), width});
  for (size_t i = 0; i < pooled.size(); ++i) {
    std::copy_n(pooled[i].data(), width, images.view().row(static_cast<int64_t>(i)));
  }
  const int64_t lost = model::NormaliseRows(images);
  if (lost >= 0) throw model::AnswerError(fmt::format("image {}: its vector has no direction", lost + 1));
  return model->towers()->Probabilities(model->towers()->LogitsPerImage(images, classes));
}

io::Json Answer(const std::string& id, const std::vector<Upload>& images,
                const std::vector<std::vector<model::Prediction>>& tops) {
  io::Json data = io::Json::array();
  for (size_t i = 0; i < images.size(); ++i) {
    io::Json json = app::ToJson(app::Classification{images[i].name(), tops[i], {}});
    json.erase("path");
    json["index"] = i;
    data.push_back(std::move(json));
  }
  return {{"object", "list"}, {"model", id}, {"data", data}};
}

HttpResponse Classify(Context& context, Call& call) {
  const RequestInput input(call.request(), {"image", "top", "prompts", "templates"});
  const bool by_prompts = input.Has("prompts");
  const auto model = context.ModelFor(call, input.Text("model"), by_prompts ? kClassifyByPrompts : kClassify);
  const std::vector<Upload>& images = input.RequireImages();
  const int64_t top = input.Integer("top", 5, 1, kMaxTop);
  const model::Model& encoder = *model->image();
  std::vector<std::vector<model::Prediction>> tops(images.size());
  if (!by_prompts) {
    const std::vector<Tensor<float>> results =
        ComputePasses(context, call, model, app::Wanted::kLogits, PixelsOf(context, call, encoder, images));
    for (size_t i = 0; i < images.size(); ++i) {
      const Tensor<float>& logits = results[i];
      tops[i] = encoder.Top({logits.data(), static_cast<size_t>(logits.size())}, top);
    }
    return {.body = app::JsonLine(Answer(model->id(), images, tops))};
  }
  const app::Prompts prompts = PromptsOf(input);
  const std::vector<Tensor<float>> pooled =
      ComputePasses(context, call, model, app::Wanted::kPooled, PixelsOf(context, call, encoder, images));
  const Tensor<float> scores = ScoreByPrompts(context, call, model, prompts, pooled);
  for (size_t i = 0; i < images.size(); ++i) {
    tops[i] = app::BestPrompts(prompts, {scores.view().row(static_cast<int64_t>(i)), prompts.labels.size()}, top);
  }
  return {.body = app::JsonLine(Answer(model->id(), images, tops))};
}

}  // namespace

void AddImageRoutes(Router& router, Context& context) {
  router.Add({"POST", "/v1/classify", [&context](Call& call) { return Classify(context, call); }});
}

}  // namespace qkv::server
