// Statistics of heads on texts, for qkv qk inspect.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "qkv/app/inspection/inspection.h"
#include "qkv/app/open/note.h"
#include "qkv/app/texts/language.h"
#include "qkv/inspect/heads_texts.h"

namespace qkv::app {

/// The ids for each text. A decoder that cross-attends to a source also reads its own answer, written with the model's
/// settings. Longer texts than the model reads are cut, and `note` says so; a source that is too long is an Error, as
/// in LanguageModel::Write.
std::vector<inspect::TextIds> IdsOfTexts(const LanguageModel& model, std::span<const std::string> texts,
                                         const Note& note = {});

/// Adds the statistics of the tokens of these texts. inspection: the model's, with its parts. from: where the texts
/// come from, in words. `advance` is called inspect::TextSteps times.
void InspectTexts(const LanguageModel& model, std::span<const inspect::AttentionPart> parts,
                  std::span<const inspect::TextIds> texts, const std::string& from,
                  const std::function<void()>& advance, Inspection& inspection);

}  // namespace qkv::app
