// The server's models: loaded when first asked for, kept within a budget of memory, loaded again when their files
// change. The explorer at / uses the same.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "qkv/app/models/loaded_model.h"
#include "qkv/app/models/model_source.h"
#include "qkv/server/config.h"

namespace qkv::server {

using app::LoadedModel, app::ModelFacts;

struct ModelStatus {
  ModelEntry entry;
  bool loaded = false;
  int64_t bytes = 0;  // of its weights, if loaded, and of what the explorer derived of them
  // Why the last attempt failed, if the model is not loaded, and why its changed files could not be loaded, in which
  // case the old model serves: for clients, without paths, which the log has.
  std::string error, reload_error;
  bool unloaded = false;                     // a request unloaded it, and none has used it since
  std::shared_ptr<const LoadedModel> model;  // if loaded
};

/// Reports an event of a model to the log: "loaded", "reloaded", "unloaded", "failed", "unfit", with a detail. The
/// detail may name paths, as errors of Models never do.
using ModelEvent = std::function<void(const std::string& id, std::string_view event, const std::string& detail)>;

struct ModelsOptions {
  int64_t memory = 0;       // limit for all models, in bytes: loaded, being loaded, and unloaded but in use
  int64_t max_waiting = 1;  // requests that wait for models being loaded
};

/// Members may be called from several threads.
class Models final : public app::ModelSource {
 public:
  /// unlisted: models for the explorer alone; those that are also in `entries`, by id or by files and settings, are
  /// left out. `event` is called without locks. Throws Error if two have one id.
  Models(std::vector<ModelEntry> entries, std::vector<ModelEntry> unlisted, const ModelsOptions& options,
         ModelEvent event);
  ~Models() override;
  Models(const Models&) = delete;
  Models& operator=(const Models&) = delete;

  /// The listed model with this id; with an empty one the first. A model that is not in memory is loaded on a thread of
  /// its own, and the call waits. Throws HttpError: 404 for an unknown id, 503 if the model cannot be loaded or does
  /// not fit the budget, 429 if too many requests wait; Cancelled once `cancelled` is true.
  std::shared_ptr<const LoadedModel> Get(const std::string& id, const std::function<bool()>& cancelled = {});

  /// Loads the models marked for the start. Throws Error with the whole reason, for the server's owner.
  void LoadAtStart();
  /// Reports models that do not fit the budget beside those loaded at the start ("unfit"). Reads the headers of all.
  void FindUnfit();
  /// True if all models marked for the start have been loaded. Retries those that failed.
  bool IsReady();
  /// The listed ones, in the order of the configuration.
  std::vector<ModelStatus> List() const;
  /// One of them. Throws HttpError 404.
  ModelStatus Status(const std::string& id) const;
  /// Models in memory, also unlisted ones, and all bytes in use: loaded, derived from them, unloaded but in use.
  struct Usage {
    int64_t models = 0, bytes = 0;
  };
  Usage usage();
  /// Replaces the list. Models whose entry is the same stay loaded, those marked for the start are loaded; requests
  /// keep their models.
  void Replace(std::vector<ModelEntry> entries);
  /// Drops a model from memory until it is requested again. Throws HttpError 400 for one marked for the start.
  void Unload(const std::string& id);

  /// For the explorer: all models, also unlisted ones. Describe caches what it has read until the files change.
  std::vector<ModelEntry> Entries() const override;
  std::shared_ptr<const ModelFacts> Describe(const std::string& id) override;
  std::shared_ptr<const LoadedModel> Load(const std::string& id, const std::function<bool()>& cancelled) override;
  void Keep(const LoadedModel& model, std::shared_ptr<void> derived, int64_t bytes) override;

 private:
  using Clock = std::chrono::steady_clock;
  using Lock = std::unique_lock<std::mutex>;

  // A load in progress. Requests that wait for it get its result even if the model is unloaded at once.
  struct Attempt {
    std::shared_ptr<const LoadedModel> model;
    std::string error;  // for clients
    bool done = false;
  };
  struct Slot {
    Slot(ModelEntry given, bool is_listed) : entry(std::move(given)), listed(is_listed) {}

    const ModelEntry entry;
    const bool listed;
    std::shared_ptr<const LoadedModel> model;
    std::shared_ptr<Attempt> attempt;  // while it is loaded
    int64_t reserved = 0;              // bytes for that
    std::shared_ptr<void> derived;     // of the explorer
    int64_t derived_bytes = 0;
    std::shared_ptr<const ModelFacts> facts;  // if requested while the model was not loaded
    app::FileStamps facts_stamps;
    bool was_loaded = false;
    bool unloaded = false;                   // by Unload
    std::string error, reload_error;         // for clients
    std::string detail;                      // of the last failure, for the server's owner
    Clock::time_point failed, used, looked;  // last failure, use, look at its files
  };
  struct Loader {
    std::thread thread;
    std::shared_ptr<std::atomic<bool>> done;
  };
  struct Departed {  // dropped, but in use
    std::weak_ptr<const void> object;
    int64_t bytes = 0;
  };
  struct Event {
    std::string id;
    std::string_view event;
    std::string detail;
  };
  using Events = std::vector<Event>;
  using Dropped = std::vector<std::shared_ptr<const void>>;  // freed without the lock, which takes a while

  std::shared_ptr<Slot> Find(const std::string& id, bool listed_only) const;
  std::shared_ptr<const LoadedModel> GetFrom(const std::shared_ptr<Slot>& slot, Lock& lock,
                                             const std::function<bool()>& cancelled);
  std::shared_ptr<const LoadedModel> Wait(const Slot& slot, Lock& lock, const std::function<bool()>& cancelled);
  void LookForChanges(const std::shared_ptr<Slot>& slot, const LoadedModel& model);
  void StartLoad(const std::shared_ptr<Slot>& slot);
  void RunLoad(const std::shared_ptr<Slot>& slot);
  std::shared_ptr<const LoadedModel> LoadWithin(const std::shared_ptr<Slot>& slot, Events& events);
  void Reserve(Slot& slot, int64_t bytes, Lock& lock, Events& events);
  int64_t BytesBeside(const Slot& slot);
  int64_t BytesInUse();
  bool DropOldest(const Slot& slot, bool own_model, Events& events, Dropped& dropped);
  void DropModel(Slot& slot, Dropped& dropped);
  void DropDerived(Slot& slot, Dropped& dropped);
  void Tell(const Events& events) const;
  static ModelStatus StatusOf(const Slot& slot);

  const ModelsOptions options_;
  const ModelEvent event_;
  const std::vector<ModelEntry> unlisted_;
  mutable std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::vector<std::shared_ptr<Slot>> slots_;
  std::vector<std::shared_ptr<Slot>> loading_;  // including those that have left the list
  std::vector<Departed> departed_;
  std::vector<Loader> loaders_;
  int64_t waiting_ = 0;
  bool stopped_ = false;
};

}  // namespace qkv::server
