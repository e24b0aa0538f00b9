// A loaded model with what the explorer derives of it: its files once more, opened for edits, scratch memory, numbers
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

/// What is derived of one loaded model and kept from call to call (ModelSource::Keep).
struct DerivedState {
  std::weak_ptr<const LoadedModel> model;
  std::unique_ptr<model::Checkpoint> checkpoint;
  std::unique_ptr<OpenModel> open;
  std::vector<inspect::HeadWeights> heads;
  model::Workspace<float> workspace;
  OpenWorkspace open_workspace;

  int64_t bytes() const;
};

/// Of one call. Not thread-safe.
class ExploredModel {
 public:
  ExploredModel(ModelSource& source, std::shared_ptr<const LoadedModel> loaded, std::shared_ptr<DerivedState> state)
      : source_(source), loaded_(std::move(loaded)), state_(std::move(state)) {}

  const std::shared_ptr<const LoadedModel>& loaded() const { return loaded_; }
  const ModelEntry& entry() const { return loaded_->entry(); }

  /// The image model, of two towers the image tower. Throws Error for a model of texts.
  const model::Model& image_model() const;
  /// Both towers. Throws Error if there is no text tower.
  const model::TwoTowerModel& towers() const;
  /// The text tower with its tokenizer. Throws Error likewise.
  const app::TextEncoder& text_encoder() const;
  /// A model that writes or reads texts. Throws Error if it is of images.
  const app::LanguageModel& language() const;
  /// The configuration of a model of images, as stored. Throws Error for a model of texts.
  const model::VitConfig& config() const;
  /// The files of a model of images. Throws Error if it is of texts, and if they are no longer those that were loaded.
  const model::Checkpoint& checkpoint();
  /// For images of this size in pixels; of the last size it is kept. Throws Error as OpenModel, and if it does not fit
  /// the budget of memory.
  OpenModel& open(int64_t height, int64_t width);
  /// Measured once: the heads of every block, [L·H]. Throws Error if scores do not come from tokens.
  const std::vector<inspect::HeadWeights>& heads();

  model::Workspace<float>& workspace() { return state_->workspace; }
  /// A pass of `open`, with scratch memory that is kept.
  OpenPass Pass(OpenModel& open, const Edits& edits) { return OpenPass(open, edits, state_->open_workspace); }

 private:
  ModelSource& source_;
  const std::shared_ptr<const LoadedModel> loaded_;
  const std::shared_ptr<DerivedState> state_;
};

/// What people call a model: its own title; an id that is not just its path's; that of a model which comes with qkv; or
/// by its path.
std::string TitleOf(const ModelEntry& entry);

}  // namespace qkv::explore
