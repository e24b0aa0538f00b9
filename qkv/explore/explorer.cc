#include "qkv/explore/explorer.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "qkv/app/open/shipped.h"
#include "qkv/core/memory.h"
#include "qkv/explore/edits.h"
#include "qkv/explore/explored_model.h"
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

io::Json DescribeLanguage(const model::TextDescription& d) {
  const bool pair = d.encoder && d.decoder;
  const model::SequenceConfig& c = d.decoder ? *d.decoder : *d.encoder;
  const nn::AttentionConfig& attention = pair ? *c.block.cross : c.block.attention;
  return {{"blocks", c.depth},
          {"heads", attention.heads},
          {"head_width", attention.head_width},
          {"width", c.block.width},
          {"attention", model::Name(attention.kind)},
          {"exact", io::Json::array()}};
}

// How positions enter: "added" to the tokens, "rotary" in queries and keys, "relative" as biases of the scores.
io::Json PositionsOf(const model::VitConfig& c) {
  io::Json places = io::Json::array();
  if (c.positions != model::Positions::kNone) places.push_back("added");
  if (c.rotary != model::PatchRotary::kNone) places.push_back("rotary");
  if (c.has_relative_biases()) places.push_back("relative");
  return places;
}

io::Json DescribeImages(const ModelFacts& facts) {
  const model::VitConfig& c = facts.config;
  const nn::AttentionConfig& attention = c.block.attention;
  const inspect::TokenGrid grid = inspect::MakeTokenGrid(c, c.image_height, c.image_width);
  return {{"input", {c.channels, c.image_height, c.image_width}},
          {"photo", c.channels == 3},
          {"patch", {c.patch_height, c.patch_width}},
          {"grid", {grid.height, grid.width}},
          {"prefix", grid.prefix},
          {"blocks", c.depth},
          {"heads", attention.heads},
          {"head_width", attention.head_width},
          {"directions", GreatestRank(c)},
          {"width", c.block.width},
          {"attention", model::Name(attention.kind)},
          {"query_bias", attention.bias},
          {"qk_norm", attention.qk_norm},
          {"positions", PositionsOf(c)},
          {"labels", facts.images->labels},
          {"classifier", c.classes > 0},
          {"outputs", c.outputs()},
          {"exact", PossibleEdits(c)},
          {"parameters", facts.parameters}};
}

// What a call uses.
struct CallContext {
  ExploredModel& model;
  ExploredImages& images;
  const Packet& request;
  const AdmitPhoto& admit;

  PreparedImage Image() const { return images.Prepare(model, request, admit); }
};

struct NamedCall {
  std::string_view name;
  Packet (*answer)(const CallContext& call);
};

template <Packet (*answer)(const PassCall&)>
Packet OfPass(const CallContext& call) {
  const PreparedImage image = call.Image();
  return answer({call.model, image, call.request.json});
}

Packet OfImage(const CallContext& call) { return DescribeImage(call.Image()); }

Packet OfHeads(const CallContext& call) { return AnswerHeads(call.model); }

Packet OfGauge(const CallContext& call) {
  std::optional<PreparedImage> image;
  if (call.request.json.contains("image") || call.request.json.contains("sample") || !call.request.arrays.empty()) {
    image = call.Image();
  }
  return AnswerGauge(call.model, image ? &*image : nullptr, call.request.json);
}

Packet OfPlan(const CallContext& call) { return AnswerPlan(call.model, call.request.json); }

Packet OfSmooth(const CallContext& call) { return AnswerSmooth(call.model, call.Image(), call.request.json); }

Packet OfTranslate(const CallContext& call) { return AnswerTranslate(call.model, call.request.json); }

Packet OfWords(const CallContext& call) { return AnswerWords(call.model, call.Image(), call.request.json); }

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

const NamedCall* RequireCall(std::string_view name) {
  for (const NamedCall& call : kCalls) {
    if (call.name == name) return &call;
  }
  Fail(
      "explore: \"{}\" is no call; there are models, image, pass, rollout, relevance, tokens, heads, gauge, knockout, "
      "plan, smooth, translate and words",
      name);
}

}  // namespace

std::vector<ModelEntry> DefaultModels() {
  std::vector<ModelEntry> models = {{.id = "digits", .path = "", .title = ""}};
  for (const std::string_view name : {app::kSharedDigits, app::kMergedDigits, app::kTranslator}) {
    try {
      app::FindShippedModel(name);
      models.push_back({.id = std::string(name), .path = std::string(name), .title = ""});
    } catch (const Error&) {  // a program without its data: the built-in model is enough to begin with
    }
  }
  return models;
}

Explorer::Explorer(ExplorerOptions options)
    : own_(std::make_unique<LocalModels>(options.models.empty() ? DefaultModels() : std::move(options.models),
                                         options.memory > 0 ? options.memory : static_cast<double>(MemoryLimit()) / 4)),
      source_(own_.get()),
      images_(options.max_pixels, options.image_memory) {}

Explorer::Explorer(ModelSource& source, const ExplorerOptions& options)
    : source_(&source), images_(options.max_pixels, options.image_memory) {}

void Explorer::Add(ModelEntry entry) {
  Require(own_ != nullptr, "explore: the list of models is not the explorer's own");
  own_->Add(std::move(entry));
}

std::vector<std::string> Explorer::Calls() {
  std::vector<std::string> names = {"models"};
  for (const NamedCall& call : kCalls) names.emplace_back(call.name);
  return names;
}

Packet Explorer::Models() const {
  Packet answer;
  answer.json["models"] = io::Json::array();
  for (const ModelEntry& entry : source_->Entries()) {
    io::Json facts;
    try {
      const std::shared_ptr<const ModelFacts> model = source_->Describe(entry.id);
      facts = model->is_text() ? DescribeLanguage(*model->texts) : DescribeImages(*model);
      facts["kind"] = model->kind_name();
    } catch (const Error& error) {  // one that cannot be opened must not hide the others
      facts["error"] = error.what();
    }
    facts["id"] = entry.id, facts["title"] = TitleOf(entry), facts["dtype"] = app::PrecisionName(entry.build.precision);
    facts["shipped"] = app::ShippedNameOf(entry.path);
    answer.json["models"].push_back(std::move(facts));
  }
  answer.json["samples"] = io::Json::array();
  for (const Sample& sample : Samples()) {
    answer.json["samples"].push_back({{"id", sample.id}, {"title", sample.title}, {"model", "digits"}});
  }
  return answer;
}

std::shared_ptr<const LoadedModel> Explorer::Load(const Packet& request, const std::function<bool()>& cancelled) const {
  std::string id = TextField(request.json, "model", "");
  if (id.empty()) {
    const std::vector<ModelEntry> entries = source_->Entries();
    Require(!entries.empty(), "explore: there is no model");
    id = entries.front().id;
  }
  return source_->Load(id, cancelled);
}

std::shared_ptr<DerivedState> Explorer::StateOf(const std::shared_ptr<const LoadedModel>& model) {
  std::erase_if(states_, [](const auto& item) { return item.second.expired(); });
  std::weak_ptr<DerivedState>& kept = states_[model->id()];
  std::shared_ptr<DerivedState> state = kept.lock();
  if (!state || state->model.lock() != model) {
    state = std::make_shared<DerivedState>();
    state->model = model;
    kept = state;
  }
  return state;
}

// Scratch memory that does not fit the budget is dropped.
void Explorer::KeepState(const LoadedModel& model, const std::shared_ptr<DerivedState>& state) {
  try {
    source_->Keep(model, state, state->bytes());
  } catch (const Error&) {
    source_->Keep(model, nullptr, 0);
  }
}

Packet Explorer::Call(std::string_view name, const Packet& request) {
  if (name == "models") return Models();
  RequireCall(name);
  return Call(name, request, Load(request));
}

Packet Explorer::Call(std::string_view name, const Packet& request, const std::shared_ptr<const LoadedModel>& model,
                      const AdmitPhoto& admit) {
  const auto call = RequireCall(name);
  const std::shared_ptr<DerivedState> state = StateOf(model);
  ExploredModel explored(*source_, model, state);
  Packet answer;
  try {
    answer = call->answer({explored, images_, request, admit});
  } catch (...) {
    KeepState(*model, state);
    throw;
  }
  KeepState(*model, state);
  return answer;
}

std::string Explorer::Call(std::string_view name, std::string_view request) {
  return Encode(Call(name, request.empty() ? Packet() : Decode(std::as_bytes(std::span<const char>(request)))));
}

}  // namespace qkv::explore
