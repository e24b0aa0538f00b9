#include "qkv/explore/explorer.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "qkv/app/shipped.h"
#include "qkv/core/memory.h"
#include "qkv/explore/fields.h"
#include "qkv/explore/head_calls.h"
#include "qkv/explore/passes.h"
#include "qkv/explore/planner.h"
#include "qkv/explore/smooth.h"
#include "qkv/explore/translation.h"
#include "qkv/explore/words.h"
#include "qkv/model/config/description.h"

namespace qkv::explore {
namespace {

io::Json DescribeLanguage(LoadedModel& model) {
  const model::TextDescription& d = model.text_description();
  const bool pair = d.encoder && d.decoder;
  const model::SequenceConfig& c = d.decoder ? *d.decoder : *d.encoder;
  const nn::AttentionConfig& attention = pair ? *c.block.cross : c.block.attention;
  return {{"kind", pair ? "pair" : "text"},     {"blocks", c.depth},      {"heads", attention.heads},
          {"head_width", attention.head_width}, {"width", c.block.width}, {"attention", model::Name(attention.kind)},
          {"exact", io::Json::array()}};
}

io::Json DescribeImages(LoadedModel& model) {
  const model::Checkpoint& checkpoint = model.checkpoint();
  const model::Description& d = checkpoint.description;
  const model::VitConfig c = model::InputConfig(d);
  const nn::AttentionConfig& attention = c.block.attention;
  const inspect::TokenGrid grid = inspect::MakeTokenGrid(c, c.image_height, c.image_width);
  int64_t parameters = 0;
  for (const io::StoredTensor& tensor : checkpoint.tensors->tensors()) parameters += tensor.shape.size();
  return {{"kind", d.text ? "towers" : "image"},
          {"input", {c.channels, c.image_height, c.image_width}},
          {"photo", c.channels == 3},
          {"patch", {c.patch_height, c.patch_width}},
          {"grid", {grid.height, grid.width}},
          {"prefix", grid.prefix},
          {"blocks", c.depth},
          {"heads", attention.heads},
          {"head_width", attention.head_width},
          {"width", c.block.width},
          {"attention", model::Name(attention.kind)},
          {"labels", d.labels},
          {"classifier", c.classes > 0},
          {"exact", PossibleEdits(c)},
          {"parameters", parameters}};
}

// What a call answers with.
struct CallContext {
  LoadedModel& model;
  ImageStore& images;
  const Packet& request;

  PassCall Pass(PreparedImage& image) const {
    image = images.Prepare(model, request);
    return {model, image, request.json};
  }
};

struct NamedCall {
  std::string_view name;
  Packet (*answer)(const CallContext& call);
};

template <Packet (*answer)(const PassCall&)>
Packet OfPass(const CallContext& call) {
  PreparedImage image;
  return answer(call.Pass(image));
}

Packet OfImage(const CallContext& call) {
  return DescribeImage(call.model, call.images.Prepare(call.model, call.request));
}

Packet OfHeads(const CallContext& call) { return AnswerHeads(call.model); }

Packet OfGauge(const CallContext& call) {
  std::optional<PreparedImage> image;
  if (call.request.json.contains("image") || call.request.json.contains("sample") || !call.request.arrays.empty()) {
    image = call.images.Prepare(call.model, call.request);
  }
  return AnswerGauge(call.model, image ? &*image : nullptr, call.request.json);
}

Packet OfPlan(const CallContext& call) { return AnswerPlan(call.model, call.request.json); }

Packet OfSmooth(const CallContext& call) {
  return AnswerSmooth(call.model, call.images.Prepare(call.model, call.request), call.request.json);
}

Packet OfTranslate(const CallContext& call) { return AnswerTranslate(call.model, call.request.json); }

Packet OfWords(const CallContext& call) {
  return AnswerWords(call.model, call.images.Prepare(call.model, call.request), call.request.json);
}

constexpr NamedCall kCalls[] = {{"image", OfImage},
                                {"pass", OfPass<AnswerPass>},
                                {"rollout", OfPass<AnswerRollout>},
                                {"relevance", OfPass<AnswerRelevance>},
                                {"tokens", OfPass<AnswerTokens>},
                                {"heads", OfHeads},
                                {"gauge", OfGauge},
                                {"knockout", OfPass<AnswerKnockout>},
                                {"plan", OfPlan},
                                {"smooth", OfSmooth},
                                {"translate", OfTranslate},
                                {"words", OfWords}};

}  // namespace

std::vector<ModelEntry> DefaultModels() {
  std::vector<ModelEntry> models = {{"digits", "", "Digits"}};
  for (const auto& [name, title] : {std::pair{app::kSharedDigits, "Digits, shared queries and keys"},
                                    std::pair{app::kMergedDigits, "Digits, merged queries and keys"},
                                    std::pair{app::kTranslator, "Translator, English to Italian"}}) {
    try {
      models.push_back({std::string(name), app::FindShippedModel(name).string(), title});
    } catch (const Error&) {  // a program without its data: the built-in model is enough to begin with
    }
  }
  return models;
}

Explorer::Explorer(ExplorerOptions options) : options_(std::move(options)), images_(options_.max_pixels) {
  if (options_.models.empty()) options_.models = DefaultModels();
  if (options_.memory <= 0) options_.memory = static_cast<double>(MemoryLimit()) / 4;
  for (const ModelEntry& entry : options_.models) Add(entry);
}

void Explorer::Add(ModelEntry entry) {
  for (const auto& other : models_) {
    Require(other->entry().id != entry.id, "explore: two models are called \"{}\"; give one another name", entry.id);
  }
  models_.push_back(std::make_unique<LoadedModel>(std::move(entry)));
}

std::vector<std::string> Explorer::Calls() {
  std::vector<std::string> names = {"models"};
  for (const NamedCall& call : kCalls) names.emplace_back(call.name);
  return names;
}

LoadedModel& Explorer::ModelOf(const Packet& request) {
  const std::string id = TextField(request.json, "model", models_.front()->entry().id);
  for (const auto& model : models_) {
    if (model->entry().id != id) continue;
    used_.remove(model.get());
    used_.push_front(model.get());
    return *model;
  }
  std::string ids;
  for (const auto& model : models_) ids += (ids.empty() ? "" : ", ") + model->entry().id;
  Fail("explore: no model is called \"{}\"; there are {}", id, ids);
}

// The model of the last call stays.
void Explorer::Trim() {
  double bytes = 0;
  for (LoadedModel* model : used_) {
    bytes += model->bytes();
    if (bytes > options_.memory && model != used_.front()) bytes -= model->bytes(), model->Drop();
  }
}

Packet Explorer::Models() {
  Packet answer;
  answer.json["models"] = io::Json::array();
  for (const auto& model : models_) {
    io::Json facts;
    try {
      facts = model->is_language() ? DescribeLanguage(*model) : DescribeImages(*model);
    } catch (const Error& error) {  // one that cannot be opened must not hide the others
      facts["error"] = error.what();
    }
    facts["id"] = model->entry().id, facts["title"] = model->title();
    answer.json["models"].push_back(std::move(facts));
  }
  answer.json["samples"] = io::Json::array();
  for (const Sample& sample : Samples()) {
    answer.json["samples"].push_back({{"id", sample.id}, {"title", sample.title}, {"model", "digits"}});
  }
  return answer;
}

Packet Explorer::Call(std::string_view name, const Packet& request) {
  if (name == "models") return Models();
  for (const NamedCall& call : kCalls) {
    if (call.name != name) continue;
    Packet answer = call.answer({ModelOf(request), images_, request});
    Trim();
    return answer;
  }
  Fail(
      "explore: \"{}\" is no call; there are models, image, pass, rollout, relevance, tokens, heads, gauge, knockout, "
      "plan, smooth, translate and words",
      name);
}

std::string Explorer::Call(std::string_view name, std::string_view request) {
  return Encode(Call(name, request.empty() ? Packet() : Decode(std::as_bytes(std::span<const char>(request)))));
}

}  // namespace qkv::explore
