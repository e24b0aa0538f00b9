#include "qkv/app/models/any_model.h"

#include <fmt/format.h>

#include <utility>
#include <variant>

#include "qkv/app/models/abilities.h"
#include "qkv/app/models/info.h"
#include "qkv/app/models/sequence_info.h"
#include "qkv/app/models/text_info.h"
#include "qkv/app/open/hub.h"
#include "qkv/app/open/open.h"
#include "qkv/model/sequence/text_cache.h"
#include "qkv/text/tokenizer.h"

namespace qkv::app {

AnyModel::AnyModel(const ModelEntry& entry, const Note& note)
    : entry_(entry),
      note_(note),
      files_(std::make_shared<const model::AnyCheckpoint>(OpenAnyCheckpoint(entry, note))),
      facts_(std::make_shared<const ModelFacts>(DescribeModel(*files_, entry))) {}

io::Json AnyModel::Info() const {
  if (facts_->sequences) return SequenceInfoJson(sequences());
  return facts_->is_text() ? TextInfoJson(texts()) : InfoJson(images());
}

std::string AnyModel::UnreadHeads() const {
  if (facts_->sequences) return {};
  return facts_->is_text() ? app::UnreadHeads(texts()) : app::UnreadHeads(images());
}

std::vector<io::Setting> AnyModel::Settings() const {
  if (entry_.path.empty() || facts_->sequences) return {};
  std::vector<io::Setting> settings = facts_->is_text() ? facts_->texts->settings : facts_->images->settings;
  if (facts_->is_text() || facts_->images->text || facts_->images->decoder) {
    io::Append(text::Tokenizer::Open(FolderOf(FindModel(entry_.path))).settings(), &settings);
  }
  return settings;
}

void AnyModel::Require(std::string_view work, const Ability& ability) const {
  RequireAbility(work, ability, *facts_, entry_);
}

template <typename Files>
const Files& AnyModel::Get(std::string_view expected) const {
  const auto* const files = std::get_if<Files>(files_.get());
  qkv::Require(files != nullptr, "{} is {}, expected {}; {}", NameOf(*facts_, entry_), Describe(kind()), expected,
               EscapedText{CommandsFor(*facts_, entry_.path)});
  return *files;
}

const model::Checkpoint& AnyModel::images() const {
  return Get<model::Checkpoint>(Describe(model::ModelKind::kImages));
}

const model::TextCheckpoint& AnyModel::texts() const {
  return Get<model::TextCheckpoint>(Describe(model::ModelKind::kTexts));
}

const model::SequenceCheckpoint& AnyModel::sequences() const {
  return Get<model::SequenceCheckpoint>(Describe(model::ModelKind::kSequences));
}

model::Model AnyModel::BuildImages() const { return BuildModel(images(), entry_, note_); }

model::TwoTowerModel AnyModel::BuildTowers(model::Towers towers) const {
  return app::BuildTowers(images(), entry_, towers, note_);
}

model::CaptionModel AnyModel::BuildCaptions() const { return BuildCaptionModel(images(), entry_, note_); }

LanguageModel AnyModel::BuildLanguage() const { return LanguageModel(texts(), entry_, note_); }

model::TextModel AnyModel::BuildTexts() const {
  return BuildCached(texts(), entry_.build, CacheFor(entry_.cache, note_));
}

model::SequenceModel<float> AnyModel::BuildSequences() const {
  return {sequences().config, sequences().bound, entry_.build};
}

AnyModel AnyModel::With(const model::BuildOptions& build) const {
  AnyModel other = *this;
  other.entry_.build = build;
  return other;
}

}  // namespace qkv::app
