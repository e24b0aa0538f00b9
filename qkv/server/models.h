// The server's models: loaded when first asked for, kept within a budget of memory, loaded again when their files
// change.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "qkv/server/loaded_model.h"

namespace qkv::server {

struct ModelStatus {
  ModelEntry entry;
  bool loaded = false;
  int64_t bytes = 0;                         // of its weights, if loaded
  std::string error;                         // why the last attempt failed, or empty
  std::shared_ptr<const LoadedModel> model;  // if loaded
};

/// What happened to a model, for logs: "loaded", "reloaded", "unloaded", "failed", with a word more.
using ModelEvent = std::function<void(const std::string& id, std::string_view event, const std::string& detail)>;

class Models {
 public:
  /// memory: of all models together, in bytes. Throws Error if two have one id.
  Models(std::vector<ModelEntry> entries, int64_t memory, ModelEvent event);
  ~Models();
  Models(const Models&) = delete;
  Models& operator=(const Models&) = delete;

  /// The model of this id; of an empty one the first. Loads it if need be, while others of the same wait. Throws
  /// HttpError: 404 for an id that there is not, 503 if it cannot be loaded or does not fit the budget.
  std::shared_ptr<const LoadedModel> Get(const std::string& id);

  /// Loads those that are to be there at start. Throws HttpError as Get.
  void LoadAtStart();
  /// True if all of these are loaded.
  bool ready() const;
  /// In the order of the configuration.
  std::vector<ModelStatus> List() const;
  /// One of them. Throws HttpError 404.
  ModelStatus Status(const std::string& id) const;
  /// Takes over another list. Models whose entry is the same stay loaded, those to be there at start are loaded;
  /// requests keep what they have.
  void Replace(std::vector<ModelEntry> entries);
  /// Drops a model from memory until it is asked for again. Throws HttpError 400 for one that is to stay.
  void Unload(const std::string& id);

 private:
  using Clock = std::chrono::steady_clock;
  struct Slot {
    explicit Slot(ModelEntry given) : entry(std::move(given)) {}

    const ModelEntry entry;
    std::mutex loading;  // held by whoever loads it
    std::shared_ptr<const LoadedModel> model;
    std::string error;
    Clock::time_point failed, used, looked;  // last failure, use, look at its files
    bool reloading = false;
  };

  struct Reload {
    std::thread thread;
    std::shared_ptr<std::atomic<bool>> done;
  };

  std::shared_ptr<Slot> Find(const std::string& id) const;
  std::shared_ptr<const LoadedModel> Load(Slot& slot);
  void MakeRoom(const Slot& slot, int64_t bytes);
  void LookForChanges(const std::shared_ptr<Slot>& slot);
  void LoadBeside(const std::shared_ptr<Slot>& slot);

  const int64_t memory_;
  const ModelEvent event_;
  mutable std::mutex mutex_;  // of all below, and of the slots but for `loading`
  std::vector<std::shared_ptr<Slot>> slots_;
  std::vector<Reload> reloads_;
};

}  // namespace qkv::server
