// What a user says about a model: one struct for the command line, lists of servers, the explorer and programs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "qkv/app/open/parse.h"
#include "qkv/model/blocks/options.h"
#include "qkv/model/config/model_hints.h"

namespace qkv::app {

/// Whether the built model is kept on disk, so that the next start is immediate (model/blocks/cache.h).
enum class CachePolicy {
  kIfSet,   // only if the environment variable QKV_CACHE names a folder
  kUse,     // always
  kVerify,  // always, and compare the checksums of the model and the kept file first
};

struct ModelEntry {
  std::string id;           // in requests; empty: the path names it
  std::string path;         // folder, file of weights or id of the hub (hub.h); empty: the built-in digit classifier
  std::string title;        // on pages; empty: the id, or of a model without an id of its own from the path
  model::ModelHints given;  // what the model's files may leave out; only with a path
  std::string labels;       // file with the names of the classes (labels.h); empty: the model's own
  model::BuildOptions build;
  CachePolicy cache = CachePolicy::kIfSet;
  std::optional<InputSize> size;   // of images; none: the model's own
  std::string pool;                // of embeddings, as embed --pool; empty: as the authors of the model take it
  std::vector<std::string> tasks;  // "translate", "summarize": an encoder-decoder's; empty: by its files
  std::string revision;            // what answers call the version; empty: "1"
  bool at_start = false;           // loaded before the server is ready, and kept

  bool operator==(const ModelEntry&) const = default;
};

}  // namespace qkv::app
