#include "qkv/app/open/open.h"

#include <cstdlib>

#include "qkv/app/open/hub.h"
#include "qkv/app/open/kinds.h"
#include "qkv/app/open/labels.h"
#include "qkv/builtin/digits.h"
#include "qkv/model/families/known_models.h"
#include "qkv/model/layout/limits.h"

namespace qkv::app {
namespace {

// Recognises a text model only after opening it as an image model failed, so that others are not read twice.
model::Checkpoint OpenImages(const std::filesystem::path& path, const model::ModelHints& given,
                             const std::string& name) {
  try {
    return model::Checkpoint::Open(path, given);
  } catch (const Error&) {
    const ModelKind kind = model::FindKind(path);
    Require(kind != ModelKind::kTexts, "{}", EscapedText{KindMismatch(name, kind, {ModelKind::kImages})});
    throw;
  }
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

std::string AuthorsPool(const ModelOptions& options) {
  if (options.path.empty()) return {};
  for (const std::string& name : {options.given.architecture, HubIdOf(FindModel(options.path))}) {
    if (name.empty()) continue;
    if (const auto known = model::FindKnownModel(name)) return known->pool;
  }
  return {};
}

std::string AuthorsPool(const ModelOptions& options, const model::VitConfig& config) {
  std::string pool = AuthorsPool(options);
  return pool == "cls" && config.pool == model::Pool::kToken ? "" : pool;
}

model::Checkpoint OpenCheckpoint(const ModelOptions& options) {
  if (options.path.empty()) {
    Require(options.given.heads == 0, "open: the built-in model states its heads; expected none to be given, got {}",
            options.given.heads);
    Require(options.labels.empty(), "open: the built-in model names its classes; expected no file of labels");
    Require(options.given.state_dict.empty(), "open: the built-in model is no PyTorch file; expected no state dict");
    Require(!options.given.configure(), "open: the built-in model states its configuration; expected none to be given");
    return model::Checkpoint::FromBytes(builtin::DigitsConfig(), builtin::DigitsWeights(), "built-in digits");
  }
  const std::filesystem::path path = FindModel(options.path);
  model::ModelHints given = options.given;
  const std::string id = HubIdOf(path);
  if (given.architecture.empty() && !id.empty() && model::FindKnownModel(id)) given.architecture = id;
  model::Checkpoint checkpoint = OpenImages(path, given, options.path);
  NotifyAssumptions(checkpoint.source, checkpoint.description.assumptions, options.note);
  if (const std::string pool = AuthorsPool(options, checkpoint.description.config); !pool.empty()) {
    // For qkv info: other commands need no vectors.
    checkpoint.description.assumptions.push_back("vectors are " + pool + ", as its authors take them (else --pool)");
  }
  CompleteLabels(options.labels, checkpoint.source, checkpoint.description, options.note);
  return checkpoint;
}

void RequireProportion(const model::Checkpoint& checkpoint, const ModelOptions& options) {
  if (options.size) return;
  const model::VitConfig c = model::InputConfig(checkpoint.description);
  model::RequireProportion(model::Cost(c, c.image_height, c.image_width),
                           static_cast<double>(checkpoint.tensors->bytes()),
                           "an image at the size that the checkpoint asks for", "give another --size");
}

model::VitConfig WithImageSize(model::VitConfig config, const std::optional<InputSize>& size) {
  if (size) config.image_height = size->height, config.image_width = size->width;
  return config;
}

model::Model BuildModel(const model::Checkpoint& checkpoint, const ModelOptions& options,
                        const model::BuildOptions& build) {
  model::Model model(checkpoint, build, CacheFor(options.cache, options.note));
  if (options.size) model.SetInputSize(options.size->height, options.size->width);
  return model;
}

model::TwoTowerModel BuildTowers(const model::Checkpoint& checkpoint, const ModelOptions& options,
                                 const model::BuildOptions& build, model::Towers towers) {
  model::TwoTowerModel model(checkpoint, towers, build, CacheFor(options.cache, options.note));
  if (options.size && model.has_image()) model.image().SetInputSize(options.size->height, options.size->width);
  return model;
}

model::CaptionModel BuildCaptionModel(const model::Checkpoint& checkpoint, const ModelOptions& options,
                                      const model::BuildOptions& build) {
  model::CaptionModel model(checkpoint, build, CacheFor(options.cache, options.note));
  if (options.size) model.image().SetInputSize(options.size->height, options.size->width);
  return model;
}

model::Model LoadModel(const ModelOptions& options) {
  return BuildModel(OpenCheckpoint(options), options, {.precision = options.precision});
}

}  // namespace qkv::app
