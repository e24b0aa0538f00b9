#include "qkv/server/abilities.h"

namespace qkv::server {

using app::ModelFacts;

constexpr Ability kClassify = {"classify images without prompts",
                               "a model with a classifier (of CLIP and SigLIP, give classes in prompts)",
                               [](const ModelFacts& facts) { return facts.has_classifier(); }};
constexpr Ability kClassifyByPrompts = {"classify images by prompts", "CLIP or SigLIP",
                                        [](const ModelFacts& facts) { return facts.has_text_tower(); }};
constexpr Ability kEmbedImages = {"embed images", "a model of images",
                                  [](const ModelFacts& facts) { return !facts.is_text(); }};
constexpr Ability kEmbedTexts = {"embed texts", "CLIP, SigLIP or an encoder of texts", [](const ModelFacts& facts) {
                                   return facts.has_text_tower() || (facts.is_text() && !facts.writes_text());
                                 }};
constexpr Ability kEmbedBoth = {"embed images and texts together", "CLIP or SigLIP",
                                [](const ModelFacts& facts) { return facts.has_text_tower(); }};
constexpr Ability kDetect = {"detect objects", "YOLOS",
                             [](const ModelFacts& facts) { return facts.config.detection_classes > 0; }};
constexpr Ability kSegment = {"segment images", "EoMT",
                              [](const ModelFacts& facts) { return facts.config.mask_classes > 0; }};
constexpr Ability kAttendImage = {"show attention in images", "a model of images",
                                  [](const ModelFacts& facts) { return !facts.is_text(); }};
constexpr Ability kAttendText = {"show attention in texts", "a model of texts",
                                 [](const ModelFacts& facts) { return facts.is_text(); }};
constexpr Ability kContinueText = {"continue texts", "a decoder (GPT-2, Llama, Qwen)", [](const ModelFacts& facts) {
                                     return facts.writes_text() && !facts.texts->encoder;
                                   }};
constexpr Ability kRewriteText = {
    "read one text and write another", "Marian, T5 or a run of qkv train on pairs",
    [](const ModelFacts& facts) { return facts.writes_text() && facts.texts->encoder.has_value(); }};

constexpr Ability kTranslate = {"translate", "a model that translates (Marian, T5, or with tasks: [translate])",
                                [](const ModelFacts& facts) { return facts.translates; }};
constexpr Ability kSummarize = {
    "summarize", "a model that summarizes (by its configuration or card, or with tasks: [summarize]), or a prefix",
    [](const ModelFacts& facts) { return facts.summarizes; }};

std::vector<std::string_view> RoutesOf(const ModelFacts& facts) {
  struct Use {
    std::string_view route;
    const Ability& ability;
  };
  static constexpr Use kUses[] = {{"/v1/classify", kClassify},      {"/v1/classify", kClassifyByPrompts},
                                  {"/v1/embeddings", kEmbedImages}, {"/v1/embeddings", kEmbedTexts},
                                  {"/v1/detect", kDetect},          {"/v1/segment", kSegment},
                                  {"/v1/attention", kAttendImage},  {"/v1/attention", kAttendText},
                                  {"/v1/generate", kContinueText},  {"/v1/completions", kContinueText},
                                  {"/v1/translate", kTranslate},    {"/v1/summarize", kSummarize}};
  std::vector<std::string_view> routes;
  for (const Use& use : kUses) {
    if (!use.ability.has(facts) || (!routes.empty() && routes.back() == use.route)) continue;
    routes.push_back(use.route);
  }
  return routes;
}

}  // namespace qkv::server
