#include "qkv/app/models/abilities.h"

namespace qkv::app {

constexpr Ability kClassify = {"classify", "classify images without prompts",
                               "a model with a classifier (of CLIP and SigLIP, give classes in prompts)",
                               [](const ModelFacts& facts) { return facts.has_classifier(); }};
constexpr Ability kClassifyByPrompts = {"classify_by_prompts", "classify images by prompts", "CLIP or SigLIP",
                                        [](const ModelFacts& facts) { return facts.has_text_tower(); }};
constexpr Ability kEmbedImages = {"embed_images", "embed images", "an image model",
                                  [](const ModelFacts& facts) { return !facts.is_text(); }};
constexpr Ability kEmbedTexts = {
    "embed_texts", "embed texts", "CLIP, SigLIP or a text encoder",
    [](const ModelFacts& facts) { return facts.has_text_tower() || (facts.is_text() && !facts.writes_text()); }};
constexpr Ability kEmbedBoth = {"embed_both", "embed images and texts together", "CLIP or SigLIP",
                                [](const ModelFacts& facts) { return facts.has_text_tower(); }};
constexpr Ability kDetect = {"detect", "detect objects", "YOLOS",
                             [](const ModelFacts& facts) { return facts.config.detection_classes > 0; }};
constexpr Ability kSegment = {"segment", "segment images", "EoMT",
                              [](const ModelFacts& facts) { return facts.config.mask_classes > 0; }};
constexpr Ability kAttendImage = {"attend_images", "show attention in images", "an image model",
                                  [](const ModelFacts& facts) { return !facts.is_text(); }};
constexpr Ability kAttendText = {"attend_texts", "show attention in texts", "a text model",
                                 [](const ModelFacts& facts) { return facts.is_text(); }};
constexpr Ability kContinueText = {
    "continue_texts", "continue texts", "a decoder (GPT-2, Llama, Qwen)",
    [](const ModelFacts& facts) { return facts.writes_text() && !facts.texts->encoder; }};
constexpr Ability kRewriteText = {
    "rewrite_texts", "read one text and write another", "Marian, T5 or a run of qkv train on pairs",
    [](const ModelFacts& facts) { return facts.writes_text() && facts.texts->encoder.has_value(); }};

constexpr Ability kTranslate = {"translate", "translate",
                                "a model that translates (Marian, T5, or with tasks: [translate])",
                                [](const ModelFacts& facts) { return facts.translates; }};
constexpr Ability kSummarize = {
    "summarize", "summarize",
    "a model that summarizes (by its configuration or card, or with tasks: [summarize]), or a prefix",
    [](const ModelFacts& facts) { return facts.summarizes; }};

std::vector<std::string_view> AbilitiesOf(const ModelFacts& facts) {
  static constexpr const Ability* kAll[] = {&kClassify,     &kClassifyByPrompts, &kEmbedImages, &kEmbedTexts,
                                            &kDetect,       &kSegment,           &kAttendImage, &kAttendText,
                                            &kContinueText, &kRewriteText,       &kTranslate,   &kSummarize};
  std::vector<std::string_view> names;
  for (const Ability* ability : kAll) {
    if (ability->has(facts)) names.push_back(ability->name);
  }
  return names;
}

}  // namespace qkv::app
