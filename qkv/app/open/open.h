// Opens the model that a user names, with the precision, cache and input size that the user chose.
#pragma once

#include <optional>
#include <string>

#include "qkv/app/open/note.h"
#include "qkv/app/open/parse.h"
#include "qkv/model/caption_model.h"
#include "qkv/model/model.h"
#include "qkv/model/two_tower.h"

namespace qkv::app {

/// Whether the built model is kept on disk, so that the next start is immediate (model/blocks/cache.h).
enum class CachePolicy {
  kIfSet,   // only if the environment variable QKV_CACHE names a folder
  kUse,     // always
  kVerify,  // always, and compare the checksums of the model and the kept file first
};

/// Folder and policy of the cache; `note` receives why a file was not used or not kept.
model::Cache CacheFor(CachePolicy policy, const Note& note);

struct ModelOptions {
  std::string path;         // folder, file of weights or id of the hub (hub.h); empty: the built-in digit classifier
  model::ModelHints given;  // what the model's files may leave out; only with a path
  std::string labels;       // file with the names of the classes (labels.h); empty: the model's own
  simd::Precision precision = simd::Precision::kFloat32;
  CachePolicy cache = CachePolicy::kIfSet;
  std::optional<InputSize> size;  // none: the checkpoint's own
  Note note;
};

/// Opens the checkpoint. `note` receives what was assumed about it. Throws Error as model::Checkpoint::Open.
model::Checkpoint OpenCheckpoint(const ModelOptions& options);

/// The features that the authors of a published model use, as the option --pool: "cls", "cls+mean". Found by its name
/// in `given` or its place in the hub's cache; empty if it is none of the known models.
std::string AuthorsPool(const ModelOptions& options);
/// The same; empty also if these features are the model's default.
std::string AuthorsPool(const ModelOptions& options, const model::VitConfig& config);

/// Throws Error if the checkpoint's own input size costs out of all proportion to its weights. A size given by the user
/// may cost any amount.
void RequireProportion(const model::Checkpoint& checkpoint, const ModelOptions& options);

/// The configuration at the size that was given, or unchanged. See model::InputConfig for the checkpoint's own.
model::VitConfig WithImageSize(model::VitConfig config, const std::optional<InputSize>& size);

/// Builds the model, from the cache if possible. Throws Error if the family refuses the size.
model::Model BuildModel(const model::Checkpoint& checkpoint, const ModelOptions& options,
                        const model::BuildOptions& build);

/// Both towers of a model that has two, the image tower from the cache if possible. Throws Error as BuildModel, and if
/// the model has no text tower.
model::TwoTowerModel BuildTowers(const model::Checkpoint& checkpoint, const ModelOptions& options,
                                 const model::BuildOptions& build, model::Towers towers);

/// Encoder and decoder of a model that writes about images, the encoder from the cache if possible. Throws Error as
/// BuildModel, and if the model has no decoder.
model::CaptionModel BuildCaptionModel(const model::Checkpoint& checkpoint, const ModelOptions& options,
                                      const model::BuildOptions& build);

/// Opens and builds.
model::Model LoadModel(const ModelOptions& options);

}  // namespace qkv::app
