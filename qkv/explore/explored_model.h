// A loaded model with what the explorer derives from it: its files once more, opened for edits, scratch memory, numbers
// of its heads. Passes without edits are those of the loaded model, in its precision; edits and gradients need the
// weights as stored, in float.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "qkv/app/models/model_source.h"
#include "qkv/explore/open_pass.h"
#include "qkv/inspect/heads.h"
#include "qkv/model/checkpoint/checkpoint.h"
#include "qkv/model/model.h"
#include "qkv/model/two_tower.h"

namespace qkv::explore {

using app::LoadedModel, app::LocalModels, app::ModelEntry, app::ModelFacts, app::ModelSource;

/// Data derived from one loaded model and kept from call to call (ModelSource::Keep).
struct DerivedState {
  std::weak_ptr<const LoadedModel> model;
  std::unique_ptr<model::Checkpoint> checkpoint;
  std::unique_ptr<OpenModel> open;
  std::vector<inspect::HeadWeights> heads;
  model::Workspace<float> workspace;
  OpenWorkspace open_workspace;

  int64_t bytes() const;
};

/// Lives for one call. Not thread-safe.
class ExploredModel {
 public:
  ExploredModel(ModelSource& source, std::shared_ptr<const LoadedModel> loaded, std::shared_ptr<DerivedState> state)
      : source_(source), loaded_(std::move(loaded)), state_(std::move(state)) {}

  const std::shared_ptr<const LoadedModel>& loaded() const { return loaded_; }
  const ModelEntry& entry() const { return loaded_->entry(); }

  /// The image model; with two towers the image tower. Throws Error for a text model.
  const model::Model& image_model() const;
  /// Both towers. Throws Error if there is no text tower.
  const model::TwoTowerModel& towers() const;
  /// The text tower with its tokenizer. Throws Error likewise.
  const app::TextEncoder& text_encoder() const;
  /// A text model. Throws Error for an image model.
  const app::LanguageModel& language() const;
  /// The configuration of an image model, as stored. Throws Error for a text model.
  const model::VitConfig& config() const;
  /// The files of an image model. Throws Error for a text model, and if the files have changed since loading.
  const model::Checkpoint& checkpoint();
  /// The model for this input size in pixels. Only the last size is cached. Throws Error as OpenModel, and if it does
  /// not fit the budget of memory.
  OpenModel& open(int64_t height, int64_t width);
  /// The heads of every block, [L·H], measured once. Throws Error if scores do not come from tokens.
  const std::vector<inspect::HeadWeights>& heads();

  model::Workspace<float>& workspace() { return state_->workspace; }
  /// A pass of `open`, with scratch memory that is kept.
  OpenPass Pass(OpenModel& open, const Edits& edits) { return OpenPass(open, edits, state_->open_workspace); }

 private:
  ModelSource& source_;
  const std::shared_ptr<const LoadedModel> loaded_;
  const std::shared_ptr<DerivedState> state_;
};

/// Display name of a model: its own title; an id that is not just its path's; the name of a model that comes with qkv;
/// or by its path.
std::string TitleOf(const ModelEntry& entry);

}  // namespace qkv::explore
