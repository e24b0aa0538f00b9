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

/// The ids that each text gives. What a decoder reads beside a source is its own answer, as the model's settings give
/// it. Longer texts than the model reads are cut, and `note` is told; a source that is too long is an Error, as of
/// LanguageModel::Write.
std::vector<inspect::TextIds> IdsOfTexts(const LanguageModel& model, std::span<const std::string> texts,
                                         const Note& note = {});

/// Adds the statistics of the tokens of these texts. inspection: of the model's parts. from: where the texts come from,
/// in words. `advance` is called inspect::TextSteps times.
void InspectTexts(const LanguageModel& model, std::span<const inspect::AttentionPart> parts,
                  std::span<const inspect::TextIds> texts, const std::string& from,
                  const std::function<void()>& advance, Inspection& inspection);

}  // namespace qkv::app
