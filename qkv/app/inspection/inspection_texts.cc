#include "qkv/app/inspection/inspection_texts.h"

#include <algorithm>
#include <utility>

#include "qkv/core/error.h"

namespace qkv::app {

std::vector<inspect::TextIds> IdsOfTexts(const LanguageModel& model, std::span<const std::string> texts,
                                         const Note& note) {
  const bool pair = model.model().has_encoder() && model.model().has_decoder();
  const auto length = static_cast<size_t>(model.model().text_length());
  std::vector<Written> answers;
  if (pair) answers = model.Write(texts, {.settings = model.Settings()});
  std::vector<inspect::TextIds> all;
  size_t cut = 0;
  for (std::vector<int32_t>& ids : model.Encode(texts)) {
    cut += ids.size() > length;
    ids.resize(std::min(ids.size(), length));
    all.push_back({.ids = std::move(ids), .target = {}});
  }
  if (cut > 0) {
    Notify(note,
           FormatShown("{} of {} texts have more than the model's {} tokens and are cut", cut, all.size(), length));
  }
  for (size_t i = 0; i < answers.size(); ++i) {
    // The decoder reads what it wrote except the last token, which nothing follows.
    std::vector<int32_t>& target = all[i].target;
    target = {model.StartToken()};
    if (!answers[i].ids.empty()) target.insert(target.end(), answers[i].ids.begin(), answers[i].ids.end() - 1);
  }
  return all;
}

void InspectTexts(const LanguageModel& model, std::span<const inspect::AttentionPart> parts,
                  std::span<const inspect::TextIds> texts, const std::string& from,
                  const std::function<void()>& advance, Inspection& inspection) {
  Require(parts.size() == inspection.parts.size(), "inspect: {} parts, and {} were measured", parts.size(),
          inspection.parts.size());
  inspection.images = from;
  std::vector<inspect::TokenStatistics> statistics = inspect::MeasureTexts(parts, model.model(), texts, advance);
  for (size_t i = 0; i < parts.size(); ++i) inspection.parts[i].tokens = std::move(statistics[i]);
  const auto could_split = [](const inspect::AttentionPart& part) {
    return !part.is_cross() && part.scores_are_bilinear();
  };
  const bool split = std::ranges::any_of(inspection.parts, &InspectedPart::splits_logits);
  if (!split && std::ranges::any_of(parts, could_split)) {
    inspection.caveats.emplace_back(
        "Position and content are told apart by how texts differ: it takes two texts of two tokens at least.");
  }
}

}  // namespace qkv::app
