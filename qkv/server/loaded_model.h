// A model as the server keeps it: opened once, with what its kind of work needs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "qkv/app/embed.h"
#include "qkv/app/language.h"
#include "qkv/app/note.h"
#include "qkv/app/texts.h"
#include "qkv/core/file.h"
#include "qkv/io/json.h"
#include "qkv/model/two_tower.h"
#include "qkv/server/config.h"

namespace qkv::server {

/// Const members may be called from several threads.
class LoadedModel {
 public:
  /// Opens and builds it. `note` is told what was assumed. Throws Error as app::OpenCheckpoint and app::LanguageModel.
  LoadedModel(const ModelEntry& entry, const app::Note& note);
  LoadedModel(const LoadedModel&) = delete;
  LoadedModel& operator=(const LoadedModel&) = delete;

  const ModelEntry& entry() const { return entry_; }
  const std::string& id() const { return entry_.id; }
  /// The encoder of images: a model of images, or that tower of two. Null for a model of texts.
  const model::Model* image() const { return towers_ ? &towers_->image() : image_ ? &*image_ : nullptr; }
  /// Both towers, and the text tower with its tokenizer; null for any other model.
  const model::TwoTowerModel* towers() const { return towers_ ? &*towers_ : nullptr; }
  const app::TextEncoder* texts() const { return texts_ ? &*texts_ : nullptr; }
  /// A model of texts; null for one of images.
  const app::LanguageModel* language() const { return language_ ? &*language_ : nullptr; }
  /// What becomes the vector of an image: as the entry says, or as the model's authors take it.
  app::Pooling pooling() const { return pooling_; }

  /// The fields of `qkv info --json`.
  const io::Json& info() const { return info_; }
  /// Memory of its weights.
  int64_t bytes() const { return bytes_; }
  /// True if its files are no longer those that were read.
  bool IsOutdated() const;

 private:
  using Stamps = std::map<std::filesystem::path, FileStamp>;

  void OpenImages(const app::Note& note);
  void OpenTexts(const app::Note& note);
  Stamps ReadStamps() const;

  const ModelEntry entry_;
  std::filesystem::path folder_;  // empty: the built-in model
  Stamps stamps_;                 // of the files in it, before they were read
  std::optional<model::Model> image_;
  std::optional<model::TwoTowerModel> towers_;
  std::optional<app::TextEncoder> texts_;
  std::optional<app::LanguageModel> language_;
  app::Pooling pooling_ = app::Pooling::kModel;
  io::Json info_;
  int64_t bytes_ = 0;
};

/// Bytes of the files from which a model is loaded: about what its weights will take. 0 for the built-in one.
int64_t StoredBytes(const ModelEntry& entry);

}  // namespace qkv::server
