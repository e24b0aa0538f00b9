// Whatever a user names, opened: the door of every front end.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/app/models/model_facts.h"
#include "qkv/app/open/model_entry.h"
#include "qkv/app/open/note.h"
#include "qkv/app/texts/language.h"
#include "qkv/io/fields.h"
#include "qkv/model/caption_model.h"
#include "qkv/model/checkpoint/any_checkpoint.h"
#include "qkv/model/model.h"
#include "qkv/model/sequence/sequence_model.h"
#include "qkv/model/two_tower.h"

namespace qkv::app {

struct Ability;

/// A model's files, open and checked, what they say, and what can be built of them. A copy shares the files.
class AnyModel {
 public:
  /// Opens the files and builds nothing. `note` receives what was assumed, now and while building. Throws Error as
  /// OpenAnyCheckpoint.
  explicit AnyModel(const ModelEntry& entry, const Note& note = {});

  const ModelEntry& entry() const { return entry_; }
  model::ModelKind kind() const { return facts_->kind(); }
  const ModelFacts& facts() const { return *facts_; }
  /// As stored.
  const io::TensorSet& tensors() const { return model::TensorsOf(*files_); }
  /// The fields of `qkv info --json`.
  io::Json Info() const;
  /// Names heads in the file that vectors leave out; empty if there are none, or for a sequence model.
  std::string UnreadHeads() const;
  /// How qkv used every setting in its files, the tokenizer's too; none for the models that qkv writes.
  std::vector<io::Setting> Settings() const;

  /// Throws Error, which begins with `work`, if it cannot do this: it says what the model is, what is expected, and
  /// which commands take it.
  void Require(std::string_view work, const Ability& ability) const;

  // The files, by the kind. Throw Error for another kind.
  const model::Checkpoint& images() const;  // kImages, kCaptions
  const model::TextCheckpoint& texts() const;
  const model::SequenceCheckpoint& sequences() const;

  // Builds what the entry asks for, from the cache if it allows that. Throw Error for another kind, and as the
  // functions in app/open/open.h.
  model::Model BuildImages() const;
  model::TwoTowerModel BuildTowers(model::Towers towers) const;
  model::CaptionModel BuildCaptions() const;
  LanguageModel BuildLanguage() const;  // with its tokenizers
  model::TextModel BuildTexts() const;  // alone
  model::SequenceModel<float> BuildSequences() const;

  /// The same files, built in another way.
  AnyModel With(const model::BuildOptions& build) const;

 private:
  template <typename Files>
  const Files& Get(std::string_view expected) const;

  ModelEntry entry_;
  Note note_;
  std::shared_ptr<const model::AnyCheckpoint> files_;
  std::shared_ptr<const ModelFacts> facts_;
};

}  // namespace qkv::app
