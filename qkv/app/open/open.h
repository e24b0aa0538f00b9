// Opens the model that a user names, and builds image models with the precision, cache and input size that the user
// chose. Any model: models/any_model.h.
#pragma once

#include <optional>
#include <string>

#include "qkv/app/open/model_entry.h"
#include "qkv/app/open/note.h"
#include "qkv/model/caption_model.h"
#include "qkv/model/checkpoint/any_checkpoint.h"
#include "qkv/model/families/known_models.h"
#include "qkv/model/model.h"
#include "qkv/model/two_tower.h"

namespace qkv::app {

/// Folder and policy of the cache; `note` receives why a file was not used or not kept.
model::Cache CacheFor(CachePolicy policy, const Note& note);

/// Opens the files of a model of any kind. `note` receives what was assumed. Throws Error as
/// model::OpenAnyCheckpoint, and for settings of images that are given to another kind.
model::AnyCheckpoint OpenAnyCheckpoint(const ModelEntry& entry, const Note& note = {});
/// The same for an image model. Throws Error for any other kind.
model::Checkpoint OpenCheckpoint(const ModelEntry& entry, const Note& note = {});

/// The published model that this is by its name in `given` or its place in the hub's cache; nothing if it is none of
/// the known models.
std::optional<model::KnownModel> FindKnownModel(const ModelEntry& entry);

/// The features that the authors of a published model use, as the option --pool: "cls", "cls+mean"; empty if it is none
/// of the known models.
std::string AuthorsPool(const ModelEntry& entry);
/// The same; empty also if these features are the model's default.
std::string AuthorsPool(const ModelEntry& entry, const model::VitConfig& config);

/// Throws Error if the checkpoint's own input size costs out of all proportion to its weights. A size given by the user
/// may cost any amount.
void RequireProportion(const model::Checkpoint& checkpoint, const ModelEntry& entry);

/// The configuration at the size of the entry, or else at the checkpoint's own, which model::InputConfig gives.
model::VitConfig InputConfig(const model::Checkpoint& checkpoint, const ModelEntry& entry);

/// Builds the model as the entry says, from the cache if possible. Throws Error if the family refuses the size.
model::Model BuildModel(const model::Checkpoint& checkpoint, const ModelEntry& entry, const Note& note = {});

/// Both towers of a model that has two, the image tower from the cache if possible. Throws Error as BuildModel, and if
/// the model has no text tower.
model::TwoTowerModel BuildTowers(const model::Checkpoint& checkpoint, const ModelEntry& entry, model::Towers towers,
                                 const Note& note = {});

/// Encoder and decoder of a model that writes about images, the encoder from the cache if possible. Throws Error as
/// BuildModel, and if the model has no decoder.
model::CaptionModel BuildCaptionModel(const model::Checkpoint& checkpoint, const ModelEntry& entry,
                                      const Note& note = {});

/// Opens and builds.
model::Model LoadModel(const ModelEntry& entry, const Note& note = {});

}  // namespace qkv::app
