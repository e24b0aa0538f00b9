// What models can do, told by their files: one table for every front end.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "qkv/app/models/model_facts.h"

namespace qkv::app {

struct Ability {
  std::string_view name;      // "detect", for programs
  std::string_view what;      // "detect objects"
  std::string_view expected;  // models that can do it, in words
  std::string_view command;   // what it is good for, in a sentence with the command; "{0}": the model
  bool (*has)(const ModelFacts& facts);
};

extern const Ability kClassify, kClassifyByPrompts, kEmbedImages, kEmbedTexts, kEmbedBoth, kDetect, kSegment,
    kWriteCaption, kAttendImage, kAttendText, kContinueText, kRewriteText, kTranslate, kSummarize, kInspectHeads,
    kReplaceMatrices, kCaptureTensors;

/// Throws Error, which begins with `work`, if a model cannot do this: it says what the model is, what is expected, and
/// which commands take it. entry: what the user said about the model.
void RequireAbility(std::string_view work, const Ability& ability, const ModelFacts& facts, const ModelEntry& entry);

/// "folder (MarianMTModel)"
std::string NameOf(const ModelFacts& facts, const ModelEntry& entry);

/// The names of what a model can do.
std::vector<std::string_view> AbilitiesOf(const ModelFacts& facts);

/// The commands that take this model, which is called `name`, as a sentence: what to use instead of one that does not.
std::string CommandsFor(const ModelFacts& facts, const std::string& name);

}  // namespace qkv::app
