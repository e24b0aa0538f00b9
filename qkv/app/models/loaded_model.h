// A model of a list of models: in memory, with what its kind of work needs. Not here: when it is loaded and dropped
// (server/models.h, models/model_source.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "qkv/app/models/model_facts.h"
#include "qkv/app/open/note.h"
#include "qkv/app/texts/language.h"
#include "qkv/app/texts/texts.h"
#include "qkv/io/json.h"
#include "qkv/model/two_tower.h"

namespace qkv::app {

/// Const members may be called from several threads.
class LoadedModel {
 public:
  /// Opens and builds it. `note` receives what was assumed. Later errors and info() name the model by its id, not by
  /// its path. Throws Error as AnyModel and RequireListed.
  explicit LoadedModel(const ModelEntry& entry, const Note& note = {});
  LoadedModel(const LoadedModel&) = delete;
  LoadedModel& operator=(const LoadedModel&) = delete;

  const ModelEntry& entry() const { return entry_; }
  const std::string& id() const { return entry_.id; }
  const ModelFacts& facts() const { return facts_; }
  const io::Json& info() const { return info_; }  // the fields of `qkv info --json`
  /// The image encoder; with two towers the image tower. Null for a text model.
  const model::Model* image() const { return towers_ ? &towers_->image() : image_ ? &*image_ : nullptr; }
  /// Both towers, and the text tower with its tokenizer; null for any other model.
  const model::TwoTowerModel* towers() const { return towers_ ? &*towers_ : nullptr; }
  const TextEncoder* texts() const { return texts_ ? &*texts_ : nullptr; }
  /// A text model; null for an image model.
  const LanguageModel* language() const { return language_ ? &*language_ : nullptr; }

  /// Estimate of the memory of its weights: packed layers, embeddings.
  int64_t bytes() const { return bytes_; }
  /// True if its files are no longer those that were read.
  bool IsOutdated() const;

 private:
  const ModelEntry entry_;
  const FileStamps stamps_;  // before the files were read
  ModelFacts facts_;
  io::Json info_;
  std::optional<model::Model> image_;
  std::optional<model::TwoTowerModel> towers_;
  std::optional<TextEncoder> texts_;
  std::optional<LanguageModel> language_;
  int64_t bytes_ = 0;
};

}  // namespace qkv::app
