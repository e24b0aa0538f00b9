#include "qkv/explore/explored_model.h"

#include <fmt/format.h>

#include <array>
#include <string_view>
#include <utility>

#include "qkv/app/models/model_title.h"
#include "qkv/app/open/open.h"
#include "qkv/app/open/shipped.h"
#include "qkv/core/file_error.h"
#include "qkv/core/pause.h"
#include "qkv/explore/outdated_error.h"
#include "qkv/inspect/weights.h"

namespace qkv::explore {

int64_t DerivedState::bytes() const {
  int64_t bytes = workspace.bytes() + static_cast<int64_t>(open_workspace.network.peak_bytes());
  if (open) bytes += open->bytes();
  return bytes;
}

const model::Model& ExploredModel::image_model() const {
  Require(loaded_->image() != nullptr, "{}: a text model; this needs an image model", entry().id);
  return *loaded_->image();
}

const model::TwoTowerModel& ExploredModel::towers() const {
  image_model();
  Require(loaded_->towers() != nullptr,
          "{}: no text tower, so no text can be compared with the image; models such as CLIP and SigLIP have one",
          entry().id);
  return *loaded_->towers();
}

const app::TextEncoder& ExploredModel::text_encoder() const {
  towers();
  return *loaded_->texts();
}

const app::LanguageModel& ExploredModel::language() const {
  Require(loaded_->language() != nullptr, "{}: an image model; this needs a text model", entry().id);
  return *loaded_->language();
}

const model::VitConfig& ExploredModel::config() const {
  image_model();
  return loaded_->facts().images->config;
}

const model::Checkpoint& ExploredModel::checkpoint() {
  image_model();
  if (!state_->checkpoint) {
    if (loaded_->IsOutdated()) {
      throw OutdatedError(
          FormatShown("{}: its files have changed since it was loaded; ask again in a few seconds", entry().id));
    }
    try {
      state_->checkpoint =
          std::make_unique<model::Checkpoint>(app::OpenCheckpoint({.path = entry().path, .labels = entry().labels}));
    } catch (const Error& error) {  // it was opened before
      throw FileError(error.what());
    }
    state_->checkpoint->source = entry().id;
  }
  return *state_->checkpoint;
}

OpenModel& ExploredModel::open(int64_t height, int64_t width) {
  std::unique_ptr<OpenModel>& open = state_->open;
  if (open && open->config().image_height == height && open->config().image_width == width) return *open;
  open.reset();
  const int64_t weights = loaded_->facts().parameters * static_cast<int64_t>(sizeof(float));
  source_.Keep(*loaded_, state_, state_->bytes() + weights);
  open = std::make_unique<OpenModel>(checkpoint(), height, width);
  return *open;
}

const std::vector<inspect::HeadWeights>& ExploredModel::heads() {
  if (!state_->heads.empty()) return state_->heads;
  std::vector<inspect::HeadWeights> heads;
  for (int64_t block = 0; block < config().depth; ++block) {
    Pause();
    const auto layer = inspect::ReadAttention(checkpoint(), block);
    for (inspect::HeadWeights& head : inspect::MeasureWeights(layer)) heads.push_back(std::move(head));
  }
  state_->heads = std::move(heads);
  return state_->heads;
}

std::string TitleOf(const ModelEntry& entry) {
  struct Title {
    std::string_view shipped, title;
  };
  static constexpr std::array<Title, 4> kTitles = {{{"digits", "Digits"},
                                                    {app::kSharedDigits, "Digits, shared queries and keys"},
                                                    {app::kMergedDigits, "Digits, merged queries and keys"},
                                                    {app::kTranslator, "Translator, English to Italian"}}};
  if (!entry.title.empty()) return entry.title;
  if (entry.id != app::IdOfPath(entry.path)) return entry.id;
  const std::string_view shipped = app::ShippedNameOf(entry.path);
  for (const Title& known : kTitles) {
    if (known.shipped == shipped) return std::string(known.title);
  }
  return app::ModelTitle(entry.path);
}

}  // namespace qkv::explore
