#include "qkv/app/models/loaded_model.h"

#include <algorithm>

#include "qkv/app/models/any_model.h"
#include "qkv/app/open/hub.h"
#include "qkv/app/open/open.h"

namespace qkv::app {

LoadedModel::LoadedModel(const ModelEntry& entry, const Note& note) : entry_(entry), stamps_(StampFiles(entry)) {
  const AnyModel model(entry, note);
  facts_ = model.facts();
  RequireListed(facts_, entry);
  if (facts_.is_text()) {
    language_.emplace(model.BuildLanguage());
    bytes_ = language_->model().weight_bytes();
  } else {
    RequireProportion(model.images(), entry);
    if (facts_.has_text_tower()) {
      towers_.emplace(model.BuildTowers(model::Towers::kBoth));
      texts_.emplace(*towers_, FindModel(entry.path), note);
      bytes_ = towers_->image().weight_bytes() + towers_->text().weight_bytes();
    } else {
      image_.emplace(model.BuildImages());
      bytes_ = image_->weight_bytes();
    }
  }
  info_ = model.Info();
  if (!entry.id.empty()) info_["source"] = entry.id;
  bytes_ = std::max(bytes_, facts_.expected_bytes);
}

bool LoadedModel::IsOutdated() const {
  try {
    return StampFiles(entry_) != stamps_;
  } catch (const Error&) {  // it has left the hub's cache
    return false;
  }
}

}  // namespace qkv::app
