#include "qkv/app/texts.h"

#include <algorithm>

#include "qkv/app/hub.h"
#include "qkv/core/error.h"
#include "qkv/core/lines.h"
#include "qkv/core/parallel.h"
#include "qkv/core/text.h"
#include "qkv/image/image.h"
#include "qkv/text/clean.h"

namespace qkv::app {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxTextBytes = size_t{1} << 30;
constexpr size_t kTextsAtATime = 256;
constexpr size_t kShownBytes = 60;  // of a text, in a note

std::string Clean(const std::string& text, model::TextCleaning cleaning) {
  switch (cleaning) {
    case model::TextCleaning::kNone:
      break;
    case model::TextCleaning::kWhitespace:
      return text::CleanWhitespace(text);
    case model::TextCleaning::kLower:
      return text::CleanLower(text);
    case model::TextCleaning::kCanonical:
      return text::CleanCanonical(text);
  }
  return text;
}

}  // namespace

TextEncoder::TextEncoder(const model::TwoTowerModel& model, const fs::path& folder)
    : model_(model), tokenizer_(text::Tokenizer::Open(FolderOf(folder))) {
  RequireIdsWithin(tokenizer_, model.vocabulary(), folder.string());
  Require(model.text_preparation().unsupported.empty(),
          "{}: the tokenizer's setting {} is not supported; give ids of your own to qkv run", folder.string(),
          model.text_preparation().unsupported);
}

// The causal encoder that reads a token within the text sees nothing of what follows it.
text::TokenBatch TextEncoder::Encode(std::span<const std::string> texts, std::vector<uint8_t>* is_cut) const {
  const model::SequenceConfig& config = model_.text().config();
  const model::TextPreparation& preparation = model_.text_preparation();
  const bool full = !config.causal || config.pool == model::TokenPool::kLast;
  const bool filled = full && !preparation.padding_id;
  constexpr int64_t kNoLimit = int64_t{1} << 40;
  const text::EncodeOptions whole = {.max_length = kNoLimit, .padding = text::Padding::kNone},
                            fitting = {.max_length = model_.text_length(),
                                       .padding = filled ? text::Padding::kMaxLength : text::Padding::kNone};
  std::vector<std::vector<int32_t>> rows(texts.size());
  is_cut->assign(texts.size(), 0);
  constexpr int64_t kGrain = 16;
  ParallelFor(std::ssize(texts), kGrain, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      const std::string clean = Clean(texts[i], preparation.cleaning);
      rows[i] = tokenizer_.Encode(clean, whole);
      (*is_cut)[i] = std::ssize(rows[i]) > model_.text_length();
      if ((*is_cut)[i] || filled) rows[i] = tokenizer_.Encode(clean, fitting);
    }
  });
  text::TokenBatch batch{.rows = std::ssize(rows), .columns = full ? model_.text_length() : 0};
  for (const auto& row : rows) batch.columns = std::max<int64_t>(batch.columns, std::ssize(row));
  for (auto& row : rows) {
    Require(!row.empty(), "{}: a text without a token, and the tokenizer adds none", tokenizer_.description());
    row.resize(static_cast<size_t>(batch.columns), full ? preparation.padding_id.value_or(0) : row.back());
    batch.ids.insert(batch.ids.end(), row.begin(), row.end());
  }
  if (preparation.hides_separator && tokenizer_.special().separate) {
    std::ranges::replace(batch.ids, *tokenizer_.special().separate, 0);
  }
  return batch;
}

text::TokenBatch TextEncoder::Encode(std::span<const std::string> texts) const {
  std::vector<uint8_t> is_cut;
  return Encode(texts, &is_cut);
}

int64_t TextEncoder::CountTokens(const std::string& text) const {
  const text::EncodeOptions fitting = {.max_length = model_.text_length(), .padding = text::Padding::kNone};
  return std::ssize(tokenizer_.Encode(Clean(text, model_.text_preparation().cleaning), fitting));
}

Tensor<float> TextEncoder::Embed(std::span<const std::string> texts, const Note& note) const {
  auto vectors = Tensor<float>::Uninitialised({static_cast<int64_t>(texts.size()), model_.width()});
  model::TowerWorkspace workspace;
  std::vector<uint8_t> is_cut;
  size_t cut = 0, first_cut = 0;
  for (size_t first = 0; first < texts.size(); first += kTextsAtATime) {
    const text::TokenBatch batch = Encode(texts.subspan(first, std::min(kTextsAtATime, texts.size() - first)), &is_cut);
    const View<const int32_t> ids(batch.ids.data(), {batch.rows, batch.columns});
    const View<float> out(vectors.data() + static_cast<int64_t>(first) * model_.width(), {batch.rows, model_.width()});
    model_.TextEmbeds(ids, {}, workspace, out);
    for (size_t i = 0; i < is_cut.size(); ++i) {
      if (is_cut[i] && cut++ == 0) first_cut = first + i;
    }
  }
  if (cut > 0) {
    Notify(note,
           FormatShown("{} of {} texts have more than the model's {} tokens and are cut, first number {}: {}", cut,
                       texts.size(), model_.text_length(), first_cut + 1, Printable(texts[first_cut], kShownBytes)));
  }
  return vectors;
}

void RequireIdsWithin(const text::Tokenizer& tokenizer, int64_t vocabulary, const std::string& source) {
  Require(tokenizer.max_id() < vocabulary,
          "{}: the tokenizer gives ids up to {}, and the model's vocabulary ends at {}; it belongs to another model",
          source, tokenizer.max_id(), vocabulary - 1);
}

std::vector<std::string> ReadTexts(const fs::path& file) {
  const std::string all = ReadFileOrInput(file, kMaxTextBytes, "the texts");
  std::vector<std::string> texts;
  for (const std::string_view line : SplitFilledLines(all)) texts.emplace_back(line);
  Require(!texts.empty(), "{}: expected texts, one a line, and there are none", file.string());
  return texts;
}

void RequireWords(std::string_view words, std::string_view option) {
  static constexpr std::string_view kEndings[] = {".txt", ".csv", ".tsv", ".json", ".jsonl", ".md", ".npy"};
  std::string lower(words);
  std::ranges::transform(lower, lower.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? char(c + 32) : c; });
  const bool ends = image::HasImageEnding(words) ||
                    std::ranges::any_of(kEndings, [&](std::string_view ending) { return lower.ends_with(ending); });
  const bool path = words.find('/') != words.npos && words.find(' ') == words.npos;
  Require(words != "-", "{}: - is no text; give a file, or words", option);
  Require(!ends && !path, "{}: {}: no such file (if these are words, put a space behind them)", option, words);
}

}  // namespace qkv::app
