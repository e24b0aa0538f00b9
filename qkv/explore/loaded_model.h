// A model that the explorer offers, opened in steps: its files first, its layers when a pass needs them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "qkv/app/language.h"
#include "qkv/app/texts.h"
#include "qkv/explore/open_pass.h"
#include "qkv/inspect/heads.h"
#include "qkv/model/checkpoint/checkpoint.h"
#include "qkv/model/model.h"
#include "qkv/model/two_tower.h"

namespace qkv::explore {

/// A model to offer.
struct ModelEntry {
  std::string id;     // by which requests name it
  std::string path;   // folder, file of weights, id of the hub or name of a shipped model; empty: the built-in digits
  std::string title;  // for people; empty: from the path
};

/// Not thread-safe.
class LoadedModel {
 public:
  explicit LoadedModel(ModelEntry entry) : entry_(std::move(entry)) {}

  const ModelEntry& entry() const { return entry_; }
  std::string title() const;

  /// Whether it reads or writes texts alone. Throws Error as IsLanguageModel.
  bool is_language();
  /// The files of a model of images. Throws Error if it is of texts, and as app::OpenCheckpoint.
  const model::Checkpoint& checkpoint();
  /// The image model, of two towers the image tower. Throws likewise.
  const model::Model& image_model();
  /// Both towers. Throws Error if there is no text tower.
  const model::TwoTowerModel& towers();
  /// The text tower's tokens. Throws Error likewise.
  const app::TextEncoder& text_encoder();
  /// For images of this size in pixels; of the last size it is kept. Throws Error as OpenModel.
  OpenModel& open(int64_t height, int64_t width);
  /// What a model of texts is, without building it. Throws Error as model::TextCheckpoint::Open.
  const model::TextDescription& text_description();
  /// A model that writes or reads texts. Throws Error if it is of images.
  const app::LanguageModel& language();

  /// Measured once: the heads of every block, [L·H]. Throws Error if scores do not come from tokens.
  const std::vector<inspect::HeadWeights>& heads();

  model::Workspace<float>& workspace() { return workspace_; }
  OpenWorkspace& open_workspace() { return open_workspace_; }

  /// Memory of what is built, in bytes, without scratch.
  double bytes() const;
  /// Frees what was built; it is built again when it is needed.
  void Drop();

 private:
  ModelEntry entry_;
  std::optional<bool> is_language_;
  std::unique_ptr<model::Checkpoint> checkpoint_;
  std::unique_ptr<model::Model> model_;           // of one tower
  std::unique_ptr<model::TwoTowerModel> towers_;  // of two
  std::unique_ptr<app::TextEncoder> text_encoder_;
  std::unique_ptr<OpenModel> open_;
  std::optional<model::TextDescription> text_description_;
  std::unique_ptr<app::LanguageModel> language_;
  std::vector<inspect::HeadWeights> heads_;
  model::Workspace<float> workspace_;
  OpenWorkspace open_workspace_;
};

}  // namespace qkv::explore
