#include "qkv/app/open/open.h"

#include <cstdlib>
#include <utility>
#include <variant>

#include "qkv/app/open/hub.h"
#include "qkv/app/open/labels.h"
#include "qkv/builtin/digits.h"
#include "qkv/model/families/known_models.h"
#include "qkv/model/layout/limits.h"

namespace qkv::app {
namespace {

model::Checkpoint OpenDigits(const ModelEntry& entry) {
  Require(entry.given.heads == 0, "open: the built-in model states its heads; expected none to be given, got {}",
          entry.given.heads);
  Require(entry.labels.empty(), "open: the built-in model names its classes; expected no file of labels");
  Require(entry.given.state_dict.empty(), "open: the built-in model is no PyTorch file; expected no state dict");
  Require(!entry.given.configure(), "open: the built-in model states its configuration; expected none to be given");
  return model::Checkpoint::FromBytes(builtin::DigitsConfig(), builtin::DigitsWeights(), "built-in digits");
}

// What an entry says that only image models have: "size, labels"; pool "model" is that of all models.
std::string GivenOfImages(const ModelEntry& entry) {
  const model::ModelHints& hints = entry.given;
  std::string names;
  const auto add = [&](bool given, std::string_view name) {
    if (given) names.append(names.empty() ? "" : ", ").append(name);
  };
  add(entry.size.has_value(), "size");
  add(!entry.labels.empty(), "labels");
  add(!entry.pool.empty() && entry.pool != "model", "pool");
  add(hints.heads > 0, "heads");
  add(!hints.state_dict.empty(), "state-dict");
  add(!hints.architecture.empty(), "architecture");
  add(!hints.settings.empty(), "set");
  add(!hints.mean.empty(), "mean");
  add(!hints.std.empty(), "std");
  add(hints.crop_pct > 0, "crop-pct");
  return names;
}

// A model that goes over many more tokens than it learned from says so: it runs, but nobody has measured its answers.
void NotifyMoreTokens(const model::Model& model, int64_t height, int64_t width, const Note& note) {
  constexpr int64_t kMany = 4;  // times the trained ones
  const model::VitConfig& c = model.config();
  const int64_t tokens = model.TokensFor(height, width);
  if (tokens < kMany * c.tokens()) return;
  Notify(note, fmt::format("{}x{}: {} tokens an image, of a model trained with {}; its positions are {} from {}x{} to "
                           "{}x{} patches, so compare its answers with those at its own size",
                           height, width, tokens, c.tokens(),
                           c.positions == model::Positions::kLearned ? "interpolated" : "continued", c.grid_height(),
                           c.grid_width(), height / c.patch_height, width / c.patch_width));
}

void SetSize(const InputSize& size, model::Model& model, const Note& note) {
  if (size.native()) {
    model.KeepImageSizes();
    const model::VitConfig& c = model.config();
    return Notify(note,
                  fmt::format("images keep their size; the model was trained with {}x{} patches, and its positions "
                              "are fitted to others",
                              c.grid_height(), c.grid_width()));
  }
  model.SetInputSize(size.height, size.width);
  NotifyMoreTokens(model, size.height, size.width, note);
}

void CompleteImages(const ModelEntry& entry, const Note& note, model::Checkpoint* checkpoint) {
  NotifyAssumptions(checkpoint->source, checkpoint->description.assumptions, note);
  if (const std::string pool = AuthorsPool(entry, checkpoint->description.config); !pool.empty()) {
    // For qkv info: other commands need no vectors.
    checkpoint->description.assumptions.push_back("vectors are " + pool + ", as its authors take them (else --pool)");
  }
  if (const auto known = FindKnownModel(entry)) {
    checkpoint->description.licence = DescribeLicence(*known);
    if (known->tile > 0) {
      checkpoint->description.tiles = fmt::format("{} pixels at {}x", known->tile, known->magnification);
    }
  }
  CompleteLabels(entry.labels, checkpoint->source, checkpoint->description, note);
}

}  // namespace

model::Cache CacheFor(CachePolicy policy, const Note& note) {
  const char* folder = std::getenv("QKV_CACHE");
  if (policy == CachePolicy::kIfSet && (folder == nullptr || *folder == '\0')) return {};
  model::Cache cache{model::CacheFolder(), [note](const std::string& text) { Notify(note, FormatShown("{}", text)); }};
  cache.verify = policy == CachePolicy::kVerify;
  if (cache.folder.empty()) Notify(note, "no cache: none of QKV_CACHE, XDG_CACHE_HOME and HOME names a folder");
  return cache;
}

std::optional<model::KnownModel> FindKnownModel(const ModelEntry& entry) {
  if (entry.path.empty()) return {};
  for (const std::string& name : {entry.given.architecture, HubIdOf(FindModel(entry.path))}) {
    if (name.empty()) continue;
    if (auto known = model::FindKnownModel(name)) return known;
  }
  return {};
}

std::string AuthorsPool(const ModelEntry& entry) {
  const auto known = FindKnownModel(entry);
  return known ? known->pool : "";
}

std::string AuthorsPool(const ModelEntry& entry, const model::VitConfig& config) {
  std::string pool = AuthorsPool(entry);
  return pool == "cls" && config.pool == model::Pool::kToken ? "" : pool;
}

model::AnyCheckpoint OpenAnyCheckpoint(const ModelEntry& entry, const Note& note) {
  if (entry.path.empty()) return OpenDigits(entry);
  const std::filesystem::path path = FindModel(entry.path);
  model::ModelHints given = entry.given;
  const std::string id = HubIdOf(path);
  if (const auto known = id.empty() ? std::nullopt : model::FindKnownModel(id)) {
    Require(known->refused.empty(), "{}: {}", entry.path, known->refused);
    if (given.architecture.empty()) given.architecture = id;
  }
  model::AnyCheckpoint checkpoint = model::OpenAnyCheckpoint(path, given);
  if (auto* const images = std::get_if<model::Checkpoint>(&checkpoint)) {
    CompleteImages(entry, note, images);
  } else if (const std::string names = GivenOfImages(entry); !names.empty()) {
    Fail("{}: {}: settings of image models do not apply to {}", entry.path, names, Describe(model::KindOf(checkpoint)));
  }
  if (const auto* const texts = std::get_if<model::TextCheckpoint>(&checkpoint)) {
    NotifyAssumptions(texts->source, texts->description.assumptions, note);
  }
  return checkpoint;
}

model::Checkpoint OpenCheckpoint(const ModelEntry& entry, const Note& note) {
  model::AnyCheckpoint any = OpenAnyCheckpoint(entry, note);
  auto* const images = std::get_if<model::Checkpoint>(&any);
  Require(images != nullptr, "{} is {}, expected an image model", entry.path, Describe(model::KindOf(any)));
  return std::move(*images);
}

void RequireProportion(const model::Checkpoint& checkpoint, const ModelEntry& entry) {
  if (entry.size) return;
  const model::VitConfig c = model::InputConfig(checkpoint.description);
  model::RequireProportion(model::Cost(c, c.image_height, c.image_width),
                           static_cast<double>(checkpoint.tensors->bytes()),
                           "an image at the size that the checkpoint asks for", "give another --size");
}

model::VitConfig InputConfig(const model::Checkpoint& checkpoint, const ModelEntry& entry) {
  model::VitConfig config = model::InputConfig(checkpoint.description);
  if (entry.size && !entry.size->native()) {
    config.image_height = entry.size->height, config.image_width = entry.size->width;
  }
  return config;
}

model::Model BuildModel(const model::Checkpoint& checkpoint, const ModelEntry& entry, const Note& note) {
  model::Model model(checkpoint, entry.build, CacheFor(entry.cache, note));
  if (entry.size) SetSize(*entry.size, model, note);
  return model;
}

model::TwoTowerModel BuildTowers(const model::Checkpoint& checkpoint, const ModelEntry& entry, model::Towers towers,
                                 const Note& note) {
  model::TwoTowerModel model(checkpoint, towers, entry.build, CacheFor(entry.cache, note));
  if (entry.size && model.has_image()) SetSize(*entry.size, model.image(), note);
  return model;
}

model::CaptionModel BuildCaptionModel(const model::Checkpoint& checkpoint, const ModelEntry& entry, const Note& note) {
  model::CaptionModel model(checkpoint, entry.build, CacheFor(entry.cache, note));
  if (entry.size) SetSize(*entry.size, model.image(), note);
  return model;
}

model::Model LoadModel(const ModelEntry& entry, const Note& note) {
  return BuildModel(OpenCheckpoint(entry, note), entry, note);
}

}  // namespace qkv::app
