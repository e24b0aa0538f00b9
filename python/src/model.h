// An open model as Python holds it.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "python/src/call.h"
#include "qkv/app/capture/activations.h"
#include "qkv/app/models/abilities.h"
#include "qkv/app/models/any_model.h"
#include "qkv/app/models/model_facts.h"
#include "qkv/app/texts/caption.h"
#include "qkv/app/texts/texts.h"
#include "qkv/model/sequence/sequence_model.h"

namespace qkv::python {

namespace nb = nanobind;

/// A model with all of its parts built; only a tokenizer may be missing, without which images and passes are left.
/// Const members may be called from several threads.
class Model {
 public:
  /// Builds the model and keeps nothing of its files. threads: cores for its calls; 0: all. Throws Error as AnyModel's
  /// functions.
  Model(const app::AnyModel& files, int threads, const app::Note& note);
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  const app::ModelEntry& entry() const { return entry_; }
  const app::ModelFacts& facts() const { return facts_; }
  const io::Json& info() const { return info_; }  // the fields of `qkv info --json`
  int threads() const { return threads_; }
  /// What errors call the model from now on, in place of the path that it was loaded from.
  void Rename(const std::string& name);
  /// One of its files that is another than when it was loaded, of those that may hold weights or settings; or empty.
  std::string ChangedFile() const;
  /// The methods of qkv.Model that this one has.
  std::vector<std::string_view> Methods() const;

  // The parts that do this work. Throw Error, which begins with `work`, if the model cannot.
  const model::Model& Images(const char* work, const app::Ability& ability) const;
  const model::TwoTowerModel& Towers(const char* work) const;
  const app::TextEncoder& TowerTexts(const char* work) const;
  const app::LanguageModel& Language(const char* work, const app::Ability& ability) const;
  const model::TextModel& TextPasses(const char* work) const;  // without a tokenizer
  const app::Captioner& Captions(const char* work) const;
  /// A run of `qkv train` on a text; null for any other model.
  const model::SequenceModel<float>* bytes() const;
  /// A run of `qkv train` on a task or a text; null for any other model.
  const model::SequenceModel<float>* sequences() const { return sequences_ ? &*sequences_ : nullptr; }
  const model::CaptionModel& CaptionPasses(const char* work) const;

 private:
  void RequireWork(const char* work, const app::Ability& ability) const;
  void RequireTokenizer(const char* work, bool there) const;

  app::ModelEntry entry_;
  app::FileStamps stamps_;
  std::string name_;
  app::ModelFacts facts_;
  io::Json info_;
  const int threads_;
  std::optional<model::Model> images_;
  std::optional<model::TwoTowerModel> towers_;
  std::optional<app::TextEncoder> tower_texts_;
  std::optional<app::LanguageModel> language_;
  std::optional<model::TextModel> texts_;  // in place of language_ if there is no tokenizer
  std::string no_tokenizer_;               // why
  std::optional<model::SequenceModel<float>> sequences_;
  std::optional<model::CaptionModel> captions_;
  std::optional<app::Captioner> captioner_;
};

/// What Python asks of the activations of a pass: names that exist, and what changes those in `changed`, called with a
/// name and an array that it may keep; it returns an array of the same shape. None: nothing is changed.
struct AskedActivations {
  std::vector<std::string> kept, changed;
  nb::object change = nb::none();

  /// Valid while this and the call are. Throws Error for names that the model does not have.
  app::ActivationRequest For(const Model& model, Call& call) const;
};

using ModelClass = nb::class_<Model>;

// The methods of a subject each.
void BindActivations(ModelClass& model);
void BindImages(ModelClass& model);
void BindMasks(nb::module_& module);
void BindTexts(ModelClass& model);
void BindAttention(ModelClass& model, nb::module_& module);
void BindEvaluation(ModelClass& model);
void BindExplorer(ModelClass& model, nb::module_& module);

}  // namespace qkv::python
