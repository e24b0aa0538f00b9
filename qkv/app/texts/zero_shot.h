// Classes by description: a model with two towers compares images with texts, and needs no classifier.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/app/images/classify.h"
#include "qkv/app/texts/texts.h"

namespace qkv::app {

struct Prompts {
  std::vector<std::string> labels;              // of the classes
  std::vector<std::string> templates = {"{}"};  // texts of a class, its label in place of {}
};

/// given: labels separated by commas, or a file with one a line. templates: each with {}, or none. Throws Error for an
/// empty label, a label twice, a single label that looks like a missing file, and a template without {}.
Prompts MakePrompts(const std::string& given, const std::vector<std::string>& templates);

/// The same of labels that are given one by one. option, template_option: what errors call them.
Prompts MakePrompts(std::vector<std::string> labels, const std::vector<std::string>& templates, std::string_view option,
                    std::string_view template_option);
/// "a cat, a dog" as two labels.
std::vector<std::string> SplitAtCommas(std::string_view text);

/// The `top` best classes of one image, best first; equal scores in the order of the labels. scores: [classes].
std::vector<model::Prediction> BestPrompts(const Prompts& prompts, std::span<const float> scores, int64_t top);

/// The texts of all classes: those of a class are neighbours.
std::vector<std::string> PromptTexts(const Prompts& prompts);
/// A vector of unit length for each class, the mean of those of its texts: [classes, width]. vectors: of PromptTexts.
Tensor<float> MeanPrompts(const Prompts& prompts, Tensor<float> vectors);
/// A vector of unit length for each class, the mean of those of its texts: [classes, width]. `note`: as
/// TextEncoder::Embed.
Tensor<float> EmbedPrompts(const TextEncoder& encoder, const Prompts& prompts, const Note& note = {});

/// Classifies the images as Classify does. classes: from EmbedPrompts. A score is a share of all classes for a model of
/// softmax, and a class's own probability for one of sigmoids, as the model was trained.
int ClassifyByPrompts(const model::TwoTowerModel& model, const Prompts& prompts, View<const float> classes,
                      const ImageList& images, const ClassifyOptions& options,
                      const std::function<void(std::span<const Classification>)>& use);

}  // namespace qkv::app
