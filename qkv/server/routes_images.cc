// Classifies images: by the model's own classes, or by classes in words.
#include <algorithm>

#include "qkv/app/images/classify.h"
#include "qkv/app/open/json_line.h"
#include "qkv/app/texts/zero_shot.h"
#include "qkv/model/blocks/finite.h"
#include "qkv/model/blocks/unit_rows.h"
#include "qkv/server/images.h"
#include "qkv/server/routes.h"
#include "qkv/server/tasks.h"
#include "qkv/server/vectors.h"

namespace qkv::server {
namespace {

constexpr size_t kMaxTexts = 2048;

constexpr Field kTopField = {.name = "top",
                             .type = Field::Type::kInteger,
                             .meaning = "So many classes of each image (5)",
                             .low = 1,
                             .high = 1 << 20};
const std::vector<Field> kClassifyFields = {
    kImageField,
    kTopField,
    {.name = "prompts",
     .type = Field::Type::kOther,
     .meaning = "Classes in words, for models with two towers",
     .schema = R"({"anyOf": [{"type": "string", "description": "Separated by commas"},
                             {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1},
                             {"type": "null"}]})",
     .places = Field::Places::kBody},
    {.name = "templates",
     .type = Field::Type::kOther,
     .meaning = "Texts with {} where the class stands",
     .schema = R"({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}, {"type": "null"}]})",
     .places = Field::Places::kBody},
    kTruncateField};

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

// Scores of classes in words: [images, classes]. ids, is_cut: for the prompts' texts.
Tensor<float> ScoreByPrompts(Context& context, const Call& call, const std::shared_ptr<const LoadedModel>& model,
                             const app::Prompts& prompts, std::vector<app::TextIds> ids,
                             const std::vector<Tensor<float>>& pooled, std::vector<bool>* is_cut) {
  const int64_t width = model->towers()->width();
  TextVectors texts = EmbedTexts(context, call, model, std::move(ids));
  Tensor<float> vectors({std::ssize(texts.vectors), width});
  for (size_t i = 0; i < texts.vectors.size(); ++i) {
    std::ranges::copy(texts.vectors[i], vectors.view().row(static_cast<int64_t>(i)));
  }
  const Tensor<float> classes = app::MeanPrompts(prompts, std::move(vectors));
  *is_cut = std::move(texts.is_cut);
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
  const RequestInput input(call.request(), NamesOf(kClassifyFields));
  const bool by_prompts = input.Has("prompts");
  const auto model = context.ModelFor(call, input.Text("model"), by_prompts ? kClassifyByPrompts : kClassify);
  const std::vector<Upload>& images = input.RequireImages();
  const int64_t top = input.Integer(kTopField, 5);
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
  // Done before the images, which take longer: the texts may be refused.
  std::vector<app::TextIds> ids = ReadTexts(context, call, *model, app::PromptTexts(prompts), LongTextsOf(input));
  const std::vector<Tensor<float>> pooled =
      ComputePasses(context, call, model, app::Wanted::kPooled, PixelsOf(context, call, encoder, images));
  std::vector<bool> is_cut;
  const Tensor<float> scores = ScoreByPrompts(context, call, model, prompts, std::move(ids), pooled, &is_cut);
  for (size_t i = 0; i < images.size(); ++i) {
    tops[i] = app::BestPrompts(prompts, {scores.view().row(static_cast<int64_t>(i)), prompts.labels.size()}, top);
  }
  io::Json answer = Answer(model->id(), images, tops);
  if (std::ranges::find(is_cut, true) != is_cut.end()) answer["truncated"] = true;
  return {.body = app::JsonLine(answer)};
}

}  // namespace

void AddImageRoutes(Router& router, Context& context) {
  router.Add({.method = "POST",
              .pattern = "/v1/classify",
              .handler = [&context](Call& call) { return Classify(context, call); },
              .fields = kClassifyFields});
}

}  // namespace qkv::server
