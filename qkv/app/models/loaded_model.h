// A model of a list of models: what the list says about it, what its files say, and the model in memory with what its
// kind of work needs. Not here: when it is loaded and dropped (server/models.h, models/model_source.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/app/open/note.h"
#include "qkv/app/texts/language.h"
#include "qkv/app/texts/texts.h"
#include "qkv/core/file.h"
#include "qkv/io/json.h"
#include "qkv/model/config/description.h"
#include "qkv/model/config/text_description.h"
#include "qkv/model/two_tower.h"

namespace qkv::app {

/// One model, as users name it.
struct ModelEntry {
  std::string id;     // in requests
  std::string path;   // as -m of the command line; empty: the built-in digits
  std::string title;  // on pages; empty: the id, or of a model without an id of its own from the path
  std::string dtype = "fp32";
  std::string size;                // "HxW" or "N"; empty: the model's own
  std::string pool;                // of embeddings, as embed --pool; empty: as the authors of the model take it
  std::string labels;              // file with the names of the classes
  std::string revision;            // what answers call the version; empty: "1"
  std::vector<std::string> tasks;  // "translate", "summarize": an encoder-decoder's; empty: by its files
  bool at_start = false;           // loaded before the server is ready, and kept

  bool operator==(const ModelEntry&) const = default;
};

/// The id of a model that is given by its path alone: the path's last part.
std::string IdOfPath(const std::string& path);

/// What a model's files say, with the entry's size and labels.
struct ModelFacts {
  std::optional<model::Description> images;     // for an image model, also with a text tower
  std::optional<model::TextDescription> texts;  // for a text model
  model::VitConfig config;                      // of `images`, at the size that images become
  std::string pool;                             // of embeddings, as embed --pool
  int64_t parameters = 0;                       // elements of the stored tensors
  int64_t expected_bytes = 0;                   // estimate of what the weights take in memory
  io::Json info;                                // the fields of `qkv info --json`
  bool translates = false, summarizes = false;  // tasks of an encoder-decoder of texts

  bool is_text() const { return texts.has_value(); }
  bool writes_text() const { return texts && texts->decoder; }
  bool has_text_tower() const { return images && images->text; }
  /// "image", "towers" (images and texts), "text", or "pair" (an encoder-decoder of texts).
  std::string_view kind() const;
  /// An image model with classes, not compared with texts.
  bool has_classifier() const { return images && !images->text && config.classes > 0; }
};

/// Reads configuration and headers, and builds nothing. Throws Error as OpenCheckpoint and model::TextCheckpoint::Open,
/// and for settings of images (size, pool, labels) given to a text model.
ModelFacts DescribeModel(const ModelEntry& entry);

/// The files of a model when they were read; empty for the built-in one.
using FileStamps = std::map<std::filesystem::path, FileStamp>;
FileStamps StampFiles(const ModelEntry& entry);

/// Const members may be called from several threads.
class LoadedModel {
 public:
  /// Opens and builds it. `note` receives what was assumed. Later errors and facts().info name the model by its id, not
  /// by its path. Throws Error as DescribeModel, BuildModel and LanguageModel.
  explicit LoadedModel(const ModelEntry& entry, const Note& note = {});
  LoadedModel(const LoadedModel&) = delete;
  LoadedModel& operator=(const LoadedModel&) = delete;

  const ModelEntry& entry() const { return entry_; }
  const std::string& id() const { return entry_.id; }
  const ModelFacts& facts() const { return facts_; }
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
  std::optional<model::Model> image_;
  std::optional<model::TwoTowerModel> towers_;
  std::optional<TextEncoder> texts_;
  std::optional<LanguageModel> language_;
  int64_t bytes_ = 0;
};

}  // namespace qkv::app
