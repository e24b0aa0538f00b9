// What the routes ask of a model, and which models can do it, by their files.
#pragma once

#include <string_view>
#include <vector>

#include "qkv/app/models/loaded_model.h"

namespace qkv::server {

struct Ability {
  std::string_view what;      // "detect objects"
  std::string_view expected;  // models that can do it, in words
  bool (*has)(const app::ModelFacts& facts);
};

extern const Ability kClassify, kClassifyByPrompts, kEmbedImages, kEmbedTexts, kEmbedBoth, kDetect, kSegment,
    kAttendImage, kAttendText, kContinueText, kRewriteText, kTranslate, kSummarize;

/// The routes under /v1 that a model can answer.
std::vector<std::string_view> RoutesOf(const app::ModelFacts& facts);

}  // namespace qkv::server
