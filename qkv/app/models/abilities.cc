#include "qkv/app/models/abilities.h"

#include <fmt/format.h>

#include "qkv/core/error.h"

namespace qkv::app {
namespace {

bool IsImage(const ModelFacts& facts) { return facts.is_image(); }
bool IsText(const ModelFacts& facts) { return facts.is_text(); }
bool HasTextTower(const ModelFacts& facts) { return facts.has_text_tower(); }

}  // namespace

constexpr Ability kClassify = {"classify", "classify images without prompts",
                               "a model with a classifier (of CLIP and SigLIP, give classes in prompts)",
                               "qkv classify -m {0} photo.jpg says what an image shows",
                               [](const ModelFacts& facts) { return facts.has_classifier(); }};
constexpr Ability kClassifyByPrompts = {
    "classify_by_prompts", "classify images by prompts", "CLIP or SigLIP",
    "qkv classify -m {0} --prompts \"a cat,a dog\" photo.jpg compares it with words", HasTextTower};
constexpr Ability kEmbedImages = {"embed_images", "embed images", "an image model",
                                  "qkv embed -m {0} photo.jpg makes vectors of images", IsImage};
constexpr Ability kEmbedTexts = {"embed_texts", "embed texts", "CLIP, SigLIP or a text encoder",
                                 "qkv embed -m {0} --text FILE makes vectors of texts", [](const ModelFacts& facts) {
                                   return facts.has_text_tower() || (facts.is_text() && !facts.writes_text());
                                 }};
constexpr Ability kEmbedBoth = {"embed_both", "embed images and texts together", "CLIP or SigLIP", "", HasTextTower};
constexpr Ability kDetect = {
    "detect", "detect objects", "YOLOS", "qkv detect -m {0} photo.jpg finds objects",
    [](const ModelFacts& facts) { return facts.is_image() && facts.config.heads() == model::HeadKind::kBoxes; }};
constexpr Ability kSegment = {
    "segment", "segment images", "EoMT", "qkv segment -m {0} photo.jpg finds masks",
    [](const ModelFacts& facts) { return facts.is_image() && facts.config.heads() == model::HeadKind::kMasks; }};
constexpr Ability kWriteCaption = {"caption", "write about images",
                                   "an image encoder with a decoder (ViT with GPT-2, TrOCR)",
                                   "qkv caption -m {0} photo.jpg writes what an image shows",
                                   [](const ModelFacts& facts) { return facts.images && facts.images->decoder; }};
constexpr Ability kAttendImage = {"attend_images", "show attention in images", "an image model",
                                  "qkv attend -m {0} photo.jpg shows where it looks", IsImage};
constexpr Ability kAttendText = {"attend_texts", "show attention in texts", "a text model",
                                 "qkv attend -m {0} \"A text.\" shows where it looks", IsText};
constexpr Ability kContinueText = {
    "continue_texts", "continue texts", "a decoder (GPT-2, Llama, Qwen)", "qkv generate -m {0} continues a text",
    [](const ModelFacts& facts) { return facts.writes_text() && !facts.texts->encoder; }};
constexpr Ability kRewriteText = {
    "rewrite_texts", "read one text and write another",
    "a text model with an encoder and a decoder (Marian, T5, a run of qkv train on pairs)",
    "qkv translate -m {0} and qkv summarize -m {0} write texts",
    [](const ModelFacts& facts) { return facts.writes_text() && facts.texts->encoder.has_value(); }};
constexpr Ability kTranslate = {"translate", "translate",
                                "a model that translates (Marian, T5, or with tasks: [translate])", "",
                                [](const ModelFacts& facts) { return facts.translates; }};
constexpr Ability kSummarize = {
    "summarize", "summarize",
    "a model that summarizes (by its configuration or card, or with tasks: [summarize]), or a prefix", "",
    [](const ModelFacts& facts) { return facts.summarizes; }};
constexpr Ability kInspectHeads = {"inspect_heads", "say what its heads are", "any model",
                                   "qkv qk inspect -m {0} says what its heads are",
                                   [](const ModelFacts&) { return true; }};
constexpr Ability kCaptureTensors = {"capture_tensors", "give its intermediate results", "an image or a text model", "",
                                     [](const ModelFacts& facts) { return !facts.sequences; }};
constexpr Ability kReplaceMatrices = {"replace_matrices", "have its attention's matrices replaced", "an image model",
                                      "", IsImage};

namespace {

// What a model is listed with; kEmbedBoth follows from two of them.
constexpr const Ability* kAll[] = {&kClassify,   &kClassifyByPrompts, &kEmbedImages,     &kEmbedTexts,
                                   &kDetect,     &kSegment,           &kWriteCaption,    &kAttendImage,
                                   &kAttendText, &kContinueText,      &kRewriteText,     &kTranslate,
                                   &kSummarize,  &kInspectHeads,      &kReplaceMatrices, &kCaptureTensors};

}  // namespace

std::string NameOf(const ModelFacts& facts, const ModelEntry& entry) {
  const std::string architecture = facts.is_text() ? facts.texts->architecture : facts.config.architecture;
  return architecture.empty() ? entry.path : fmt::format("{} ({})", entry.path, architecture);
}

void RequireAbility(std::string_view work, const Ability& ability, const ModelFacts& facts, const ModelEntry& entry) {
  if (ability.has(facts)) return;
  const std::string is(Describe(facts.kind())), expected(ability.expected);
  if (entry.path.empty()) {
    Fail("{}: without -m the built-in digit classifier answers, which is {}; expected {}: name one by -m", work, is,
         expected);
  }
  Fail("{}: {} is {}, expected {}; {}", work, NameOf(facts, entry), is, expected,
       EscapedText{CommandsFor(facts, entry.path)});
}

std::vector<std::string_view> AbilitiesOf(const ModelFacts& facts) {
  std::vector<std::string_view> names;
  for (const Ability* ability : kAll) {
    if (ability->has(facts)) names.push_back(ability->name);
  }
  return names;
}

std::string CommandsFor(const ModelFacts& facts, const std::string& name) {
  std::string commands;
  for (const Ability* ability : kAll) {
    if (ability->command.empty() || !ability->has(facts)) continue;
    commands += (commands.empty() ? "" : ", ") + fmt::format(fmt::runtime(ability->command), name);
  }
  return commands;
}

}  // namespace qkv::app
