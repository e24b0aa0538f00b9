#include "qkv/app/models/model_source.h"

#include <algorithm>
#include <utility>

namespace qkv::app {

LocalModels::LocalModels(std::vector<ModelEntry> entries, double memory) : memory_(memory) {
  for (ModelEntry& entry : entries) Add(std::move(entry));
}

void LocalModels::Add(ModelEntry entry) {
  for (const Place& other : places_) {
    Require(other.entry.id != entry.id, "two models are called \"{}\"; give one another name", entry.id);
  }
  places_.push_back({std::move(entry), nullptr, nullptr, nullptr, 0});
}

std::vector<ModelEntry> LocalModels::Entries() const {
  std::vector<ModelEntry> entries;
  for (const Place& place : places_) entries.push_back(place.entry);
  return entries;
}

LocalModels::Place& LocalModels::Find(const std::string& id) {
  std::string ids;
  for (Place& place : places_) {
    if (place.entry.id == id) return place;
    ids += (ids.empty() ? "" : ", ") + place.entry.id;
  }
  Fail("explore: no model is called \"{}\"; there are {}", id, ids);
}

std::shared_ptr<const ModelFacts> LocalModels::Describe(const std::string& id) {
  Place& place = Find(id);
  if (!place.facts) place.facts = std::make_shared<const ModelFacts>(DescribeModel(place.entry));
  return place.facts;
}

std::shared_ptr<const LoadedModel> LocalModels::Load(const std::string& id, const std::function<bool()>&) {
  Place& place = Find(id);
  if (!place.model) place.model = std::make_shared<const LoadedModel>(place.entry);
  used_.remove(&place);
  used_.push_front(&place);
  Trim();
  return place.model;
}

void LocalModels::Keep(const LoadedModel& model, std::shared_ptr<void> derived, int64_t bytes) {
  for (Place& place : places_) {
    if (place.model.get() != &model) continue;
    place.derived = std::move(derived), place.derived_bytes = bytes;
  }
  Trim();
}

void LocalModels::Trim() {
  double bytes = 0;
  for (Place* place : used_) {
    const double own = place->model ? static_cast<double>(place->model->bytes() + place->derived_bytes) : 0;
    if (bytes + own > memory_ && place != used_.front()) {
      place->model.reset(), place->derived.reset(), place->derived_bytes = 0;
    } else {
      bytes += own;
    }
  }
}

}  // namespace qkv::app
