// Where a front end's models come from: a store that several share, or a list of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "qkv/app/models/loaded_model.h"

namespace qkv::app {

/// Models that are loaded when they are asked for, within a budget of memory.
class ModelSource {
 public:
  virtual ~ModelSource() = default;
  /// All that are offered; the first answers requests that name none.
  virtual std::vector<ModelEntry> Entries() const = 0;
  /// What a model's files say; loads nothing. Throws Error for an unknown id, and if the model cannot be opened.
  virtual std::shared_ptr<const ModelFacts> Describe(const std::string& id) = 0;
  /// The model in memory. `cancelled` ends the wait for it. Throws Error as Describe, and if it cannot be loaded.
  virtual std::shared_ptr<const LoadedModel> Load(const std::string& id, const std::function<bool()>& cancelled) = 0;
  /// Keeps data derived from a loaded model as long as the budget allows; it is dropped with the model, or before.
  /// Replaces what was kept for the model. Throws Error if `bytes` do not fit the budget; nothing is kept then.
  virtual void Keep(const LoadedModel& model, std::shared_ptr<void> derived, int64_t bytes) = 0;
};

/// A list of models in memory, for one caller at a time. Above its memory limit it drops those used least recently, but
/// never the last one.
class LocalModels final : public ModelSource {
 public:
  /// memory: limit for all models and what is derived from them, in bytes. Throws Error for two models of one id.
  LocalModels(std::vector<ModelEntry> entries, double memory);

  /// Offers one more. Throws Error if one has its id.
  void Add(ModelEntry entry);

  std::vector<ModelEntry> Entries() const override;
  std::shared_ptr<const ModelFacts> Describe(const std::string& id) override;
  std::shared_ptr<const LoadedModel> Load(const std::string& id, const std::function<bool()>& cancelled) override;
  void Keep(const LoadedModel& model, std::shared_ptr<void> derived, int64_t bytes) override;

 private:
  struct Place {
    ModelEntry entry;
    std::shared_ptr<const ModelFacts> facts;
    std::shared_ptr<const LoadedModel> model;
    std::shared_ptr<void> derived;
    int64_t derived_bytes = 0;
  };

  Place& Find(const std::string& id);
  void Trim();

  const double memory_;
  std::list<Place> places_;
  std::list<Place*> used_;  // most recently first
};

}  // namespace qkv::app
