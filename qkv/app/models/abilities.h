// What models can do, told by their files: one table for every front end.
#pragma once

#include <string_view>
#include <vector>

#include "qkv/app/models/loaded_model.h"

namespace qkv::app {

struct Ability {
  std::string_view name;      // "detect", for programs
  std::string_view what;      // "detect objects"
  std::string_view expected;  // models that can do it, in words
  bool (*has)(const ModelFacts& facts);
};

extern const Ability kClassify, kClassifyByPrompts, kEmbedImages, kEmbedTexts, kEmbedBoth, kDetect, kSegment,
    kAttendImage, kAttendText, kContinueText, kRewriteText, kTranslate, kSummarize;

/// The names of what a model can do.
std::vector<std::string_view> AbilitiesOf(const ModelFacts& facts);

}  // namespace qkv::app
