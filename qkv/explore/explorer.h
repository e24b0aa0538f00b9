// Answers the calls of the explorer's page about models, one after the other (docs/explore_protocol.md). The server and
// the WebAssembly build carry the same packets. Not here: HTTP, threads, queues.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/app/models/model_source.h"
#include "qkv/explore/explored_images.h"
#include "qkv/explore/packet.h"

namespace qkv::explore {

using app::LoadedModel, app::LocalModels, app::ModelEntry, app::ModelFacts, app::ModelSource;

struct DerivedState;

struct ExplorerOptions {
  std::vector<ModelEntry> models;             // without a source; empty: DefaultModels()
  double memory = 0;                          // likewise: limit for models, bytes; 0: a quarter of MemoryLimit()
  int64_t max_pixels = 50'000'000;            // of an image
  int64_t image_memory = int64_t{256} << 20;  // bytes of images that are kept
};

/// The models that come with qkv, if they are installed: the digits, their twins with shared and with merged queries
/// and keys, and the translator.
std::vector<ModelEntry> DefaultModels();

/// For one caller at a time, except Models and Load. Calls pause between their steps (core/pause.h); code that runs in
/// a pause must not call the same explorer.
class Explorer {
 public:
  /// Uses a list of its own. Throws Error for two models with one id.
  explicit Explorer(ExplorerOptions options = {});
  /// Uses the models of a source, which outlives it.
  Explorer(ModelSource& source, const ExplorerOptions& options);

  /// Adds a model to its own list. Throws Error if its id is taken.
  void Add(ModelEntry entry);

  /// Answers a call, "models", "image", "pass", …. Throws Error for a name that is not in Calls(), and for a request
  /// that cannot be answered.
  Packet Call(std::string_view name, const Packet& request);
  /// The same as bytes. Throws Error likewise.
  std::string Call(std::string_view name, std::string_view request);

  /// The answer to "models". As thread-safe as the source.
  Packet Models() const;
  /// Loads the model that any other call needs. As thread-safe as the source. Throws Error as ModelSource::Load.
  std::shared_ptr<const LoadedModel> Load(const Packet& request, const std::function<bool()>& cancelled = {}) const;
  /// Answers any other call with its model. `admit` is called before a photo is decoded. Throws Error likewise.
  Packet Call(std::string_view name, const Packet& request, const std::shared_ptr<const LoadedModel>& model,
              const AdmitPhoto& admit = {});

  /// Names of all calls.
  static std::vector<std::string> Calls();
  /// Memory of the kept images.
  int64_t image_bytes() const { return images_.bytes(); }

 private:
  std::shared_ptr<DerivedState> StateOf(const std::shared_ptr<const LoadedModel>& model);
  void KeepState(const LoadedModel& model, const std::shared_ptr<DerivedState>& state);

  std::unique_ptr<LocalModels> own_;
  ModelSource* source_;
  std::map<std::string, std::weak_ptr<DerivedState>> states_;  // by the model's id
  ExploredImages images_;
};

}  // namespace qkv::explore
