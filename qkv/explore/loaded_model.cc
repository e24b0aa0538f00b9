#include "qkv/explore/loaded_model.h"

#include <utility>

#include "qkv/app/hub.h"
#include "qkv/app/model_title.h"
#include "qkv/app/open.h"
#include "qkv/inspect/weights.h"
#include "qkv/model/checkpoint/text_checkpoint.h"

namespace qkv::explore {
namespace {

app::ModelOptions OptionsOf(const ModelEntry& entry) { return {.path = entry.path}; }

}  // namespace

std::string LoadedModel::title() const { return entry_.title.empty() ? app::ModelTitle(entry_.path) : entry_.title; }

bool LoadedModel::is_language() {
  if (!is_language_) is_language_ = !entry_.path.empty() && app::IsLanguageModel(entry_.path);
  return *is_language_;
}

const model::Checkpoint& LoadedModel::checkpoint() {
  Require(!is_language(), "{}: a model of texts; this needs one of images", entry_.id);
  if (!checkpoint_) checkpoint_ = std::make_unique<model::Checkpoint>(app::OpenCheckpoint(OptionsOf(entry_)));
  return *checkpoint_;
}

const model::TwoTowerModel& LoadedModel::towers() {
  Require(checkpoint().description.text.has_value(),
          "{}: no text tower, so no text can be compared with the image; models such as CLIP and SigLIP have one",
          entry_.id);
  if (!towers_) {
    towers_ = std::make_unique<model::TwoTowerModel>(
        app::BuildTowers(checkpoint(), OptionsOf(entry_), {}, model::Towers::kBoth));
  }
  return *towers_;
}

const app::TextEncoder& LoadedModel::text_encoder() {
  const model::TwoTowerModel& model = towers();
  if (!text_encoder_) text_encoder_ = std::make_unique<app::TextEncoder>(model, app::FindModel(entry_.path));
  return *text_encoder_;
}

const model::Model& LoadedModel::image_model() {
  if (checkpoint().description.text) return towers().image();
  if (!model_) model_ = std::make_unique<model::Model>(app::BuildModel(checkpoint(), OptionsOf(entry_), {}));
  return *model_;
}

OpenModel& LoadedModel::open(int64_t height, int64_t width) {
  if (!open_ || open_->config().image_height != height || open_->config().image_width != width) {
    open_.reset();
    open_ = std::make_unique<OpenModel>(checkpoint(), height, width);
  }
  return *open_;
}

const model::TextDescription& LoadedModel::text_description() {
  if (!text_description_) text_description_ = model::TextCheckpoint::Open(app::FindModel(entry_.path)).description;
  return *text_description_;
}

const app::LanguageModel& LoadedModel::language() {
  Require(is_language(), "{}: a model of images; this needs one that reads a text", entry_.id);
  if (!language_) language_ = std::make_unique<app::LanguageModel>(app::LanguageModel::Open(entry_.path));
  return *language_;
}

const std::vector<inspect::HeadWeights>& LoadedModel::heads() {
  if (!heads_.empty()) return heads_;
  std::vector<inspect::HeadWeights> heads;
  for (int64_t block = 0; block < checkpoint().description.config.depth; ++block) {
    const auto layer = inspect::ReadAttention(checkpoint(), block);
    for (inspect::HeadWeights& head : inspect::MeasureWeights(layer)) heads.push_back(std::move(head));
  }
  heads_ = std::move(heads);
  return heads_;
}

double LoadedModel::bytes() const {
  double bytes = 0;
  if (model_) bytes += static_cast<double>(model_->weight_bytes());
  if (towers_) bytes += 2 * static_cast<double>(towers_->image().weight_bytes());
  if (open_) bytes += open_->bytes();
  if (language_) bytes += static_cast<double>(language_->checkpoint().tensors->bytes());
  return bytes;
}

void LoadedModel::Drop() {
  text_encoder_.reset(), towers_.reset(), model_.reset(), open_.reset(), language_.reset();
  workspace_ = {}, open_workspace_ = {};
}

}  // namespace qkv::explore
