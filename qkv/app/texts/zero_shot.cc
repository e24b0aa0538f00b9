#include "qkv/app/texts/zero_shot.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <system_error>

#include "qkv/core/error.h"
#include "qkv/core/lines.h"
#include "qkv/model/blocks/unit_rows.h"

namespace qkv::app {
namespace {

constexpr std::string_view kPlace = "{}";

// A label a line; an error names the line.
std::vector<std::string> ReadLabelLines(const std::string& file) {
  std::vector<std::string> labels = ReadTexts(file);
  for (size_t i = 0; i < labels.size(); ++i) {
    labels[i] = std::string(Trim(labels[i]));
    Require(!labels[i].empty(), "--prompts: {}:{}: an empty line; expected a label a line", file, i + 1);
  }
  return labels;
}

std::string Fill(std::string text, const std::string& label) {
  for (size_t at = text.find(kPlace); at != text.npos; at = text.find(kPlace, at + label.size())) {
    text.replace(at, kPlace.size(), label);
  }
  return text;
}

}  // namespace

std::vector<std::string> SplitAtCommas(std::string_view text) {
  std::vector<std::string> parts;
  for (size_t comma = text.find(','); comma != text.npos; comma = text.find(',')) {
    parts.emplace_back(Trim(text.substr(0, comma)));
    text.remove_prefix(comma + 1);
  }
  parts.emplace_back(Trim(text));
  return parts;
}

Prompts MakePrompts(const std::string& given, const std::vector<std::string>& templates) {
  std::error_code ignored;
  const bool file = std::filesystem::is_regular_file(given, ignored);
  if (!file && given.find(',') == given.npos) RequireWords(given, "--prompts");
  return MakePrompts(file ? ReadLabelLines(given) : SplitAtCommas(given), templates, "--prompts", "--template");
}

Prompts MakePrompts(std::vector<std::string> labels, const std::vector<std::string>& templates, std::string_view option,
                    std::string_view template_option) {
  Prompts prompts;
  prompts.labels = std::move(labels);
  Require(!prompts.labels.empty(), "{}: expected the labels of classes, got none", option);
  std::set<std::string_view> seen;
  for (const std::string& label : prompts.labels) {
    Require(!label.empty(), "{}: an empty label; expected labels such as \"a cat,a dog\"", option);
    Require(seen.insert(label).second, "{}: \"{}\" is there twice", option, label);
  }
  if (!templates.empty()) prompts.templates = templates;
  for (const std::string& text : prompts.templates) {
    Require(text.find(kPlace) != text.npos, "{}: expected {{}} where the label stands, got \"{}\"", template_option,
            text);
  }
  return prompts;
}

std::vector<model::Prediction> BestPrompts(const Prompts& prompts, std::span<const float> scores, int64_t top) {
  std::vector<int64_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  const auto count = std::min<int64_t>(top, std::ssize(order));
  std::partial_sort(order.begin(), order.begin() + count, order.end(), [&](int64_t a, int64_t b) {
    const float x = scores[static_cast<size_t>(a)], y = scores[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  });
  std::vector<model::Prediction> best;
  for (int64_t i = 0; i < count; ++i) {
    const auto index = static_cast<size_t>(order[static_cast<size_t>(i)]);
    best.push_back({static_cast<int64_t>(index), prompts.labels[index], scores[index]});
  }
  return best;
}

std::vector<std::string> PromptTexts(const Prompts& prompts) {
  std::vector<std::string> texts;
  for (const std::string& label : prompts.labels) {
    for (const std::string& text : prompts.templates) texts.push_back(Fill(text, label));
  }
  return texts;
}

Tensor<float> EmbedPrompts(const TextEncoder& encoder, const Prompts& prompts, const Note& note) {
  return MeanPrompts(prompts, encoder.Embed(PromptTexts(prompts), note));
}

Tensor<float> MeanPrompts(const Prompts& prompts, Tensor<float> vectors) {
  const int64_t classes = std::ssize(prompts.labels), each = std::ssize(prompts.templates), width = vectors.dim(1);
  if (each == 1) return vectors;
  Tensor<float> means({classes, width});
  for (int64_t c = 0; c < classes; ++c) {
    float* mean = means.view().at(c);
    for (int64_t i = 0; i < each; ++i) {
      const float* vector = vectors.view().at(c * each + i);
      for (int64_t d = 0; d < width; ++d) mean[d] += vector[d] / static_cast<float>(each);
    }
  }
  const int64_t without = model::NormaliseRows(means);
  Require(without < 0, "--template: the texts of \"{}\" have no common direction",
          without < 0 ? "" : prompts.labels[static_cast<size_t>(without)]);
  return means;
}

int ClassifyByPrompts(const model::TwoTowerModel& model, const Prompts& prompts, View<const float> classes,
                      const ImageList& images, const ClassifyOptions& options,
                      const std::function<void(std::span<const Classification>)>& use) {
  std::vector<Classification> results;
  return ForEachBatch(options.pipeline, images, model.image(), Wanted::kPooled, [&](const Batch& batch) {
    const int64_t B = batch.values.dim(0), C = classes.dim(0);
    auto vectors = Tensor<float>::Uninitialised({B, model.width()});
    std::copy_n(batch.values.data(), vectors.size(), vectors.data());
    const int64_t without = model::NormaliseRows(vectors);
    Require(without < 0, "classify: {}: its vector has no direction",
            without < 0 ? "" : batch.paths[static_cast<size_t>(without)]);
    const Tensor<float> logits = model.LogitsPerImage(vectors, classes), scores = model.Probabilities(logits);
    results.resize(batch.paths.size());
    for (size_t b = 0; b < results.size(); ++b) {
      const auto row = static_cast<int64_t>(b);
      results[b].path = batch.paths[b], results[b].file = batch.files[b];
      results[b].top = BestPrompts(prompts, {scores.view().at(row), static_cast<size_t>(C)}, options.top);
      if (options.logits) results[b].logits.assign(logits.view().at(row), logits.view().at(row) + C);
    }
    use(results);
  });
}

}  // namespace qkv::app
