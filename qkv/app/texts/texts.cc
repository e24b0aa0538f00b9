#include "qkv/app/texts/texts.h"

#include <algorithm>

#include "qkv/app/open/hub.h"
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

TextEncoder::TextEncoder(const model::TwoTowerModel& model, const fs::path& folder, const Note& note)
    : model_(model), tokenizer_(text::Tokenizer::Open(FolderOf(folder))) {
  NotifySettings(tokenizer_, folder.string(), note);
  RequireIdsWithin(tokenizer_, model.vocabulary(), folder.string());
  Require(model.text_preparation().unsupported.empty(),
          "{}: the tokenizer's setting {} is not supported; give ids of your own to qkv run", folder.string(),
          model.text_preparation().unsupported);
}

bool TextEncoder::SeesAll() const {
  const model::SequenceConfig& config = model_.text().config();
  return !config.causal || config.pool == model::TokenPool::kLast;
}

std::vector<TextIds> TextEncoder::Read(std::span<const std::string> texts) const {
  const model::TextPreparation& preparation = model_.text_preparation();
  const bool filled = SeesAll() && !preparation.padding_id;
  constexpr int64_t kNoLimit = int64_t{1} << 40;
  const text::EncodeOptions whole = {.max_length = kNoLimit, .padding = text::Padding::kNone},
                            fitting = {.max_length = model_.text_length(),
                                       .padding = filled ? text::Padding::kMaxLength : text::Padding::kNone};
  std::vector<TextIds> read(texts.size());
  constexpr int64_t kGrain = 16;
  ParallelFor(std::ssize(texts), kGrain, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      RequireTextBytes(texts[i].size(), model_.text_length(), FormatShown("text {}", i + 1));
      const std::string clean = Clean(texts[i], preparation.cleaning);
      TextIds& one = read[i];
      one.ids = tokenizer_.Encode(clean, whole);
      one.tokens = std::ssize(one.ids);
      one.read = std::min(one.tokens, model_.text_length());
      if (one.is_cut() || filled) one.ids = tokenizer_.Encode(clean, fitting);
      Require(!one.ids.empty(), "{}: a text without a token, and the tokenizer adds none", tokenizer_.description());
    }
  });
  return read;
}

text::TokenBatch TextEncoder::Fill(std::span<const TextIds> texts) const {
  const model::TextPreparation& preparation = model_.text_preparation();
  const bool full = SeesAll();
  text::TokenBatch batch{.rows = std::ssize(texts), .columns = full ? model_.text_length() : 0};
  for (const TextIds& text : texts) batch.columns = std::max<int64_t>(batch.columns, std::ssize(text.ids));
  for (const TextIds& text : texts) {
    std::vector<int32_t> row = text.ids;
    row.resize(static_cast<size_t>(batch.columns), full ? preparation.padding_id.value_or(0) : row.back());
    batch.ids.insert(batch.ids.end(), row.begin(), row.end());
  }
  if (preparation.hides_separator && tokenizer_.special().separate) {
    std::ranges::replace(batch.ids, *tokenizer_.special().separate, 0);
  }
  return batch;
}

text::TokenBatch TextEncoder::Encode(std::span<const std::string> texts) const { return Fill(Read(texts)); }

void TextEncoder::Embed(std::span<const TextIds> texts, model::TowerWorkspace& workspace, View<float> out) const {
  const text::TokenBatch batch = Fill(texts);
  model_.TextEmbeds(View<const int32_t>(batch.ids.data(), {batch.rows, batch.columns}), {}, workspace, out);
}

Tensor<float> TextEncoder::Embed(std::span<const TextIds> texts) const {
  auto vectors = Tensor<float>::Uninitialised({std::ssize(texts), model_.width()});
  model::TowerWorkspace workspace;
  Embed(texts, workspace, vectors);
  return vectors;
}

Tensor<float> TextEncoder::Embed(std::span<const std::string> texts, const Note& note) const {
  auto vectors = Tensor<float>::Uninitialised({static_cast<int64_t>(texts.size()), model_.width()});
  model::TowerWorkspace workspace;
  std::vector<uint8_t> is_cut;
  for (size_t first = 0; first < texts.size(); first += kTextsAtATime) {
    const std::vector<TextIds> read = Read(texts.subspan(first, std::min(kTextsAtATime, texts.size() - first)));
    Embed(read, workspace,
          vectors.view().slice(0, static_cast<int64_t>(first), static_cast<int64_t>(first) + std::ssize(read)));
    for (const TextIds& text : read) is_cut.push_back(text.is_cut());
  }
  NoteCutTexts(note, texts, is_cut, model_.text_length());
  return vectors;
}

void NotifySettings(const text::Tokenizer& tokenizer, const std::string& source, const Note& note) {
  const std::string unknown = io::DescribeUnknown(tokenizer.settings());
  if (!unknown.empty()) Notify(note, FormatShown("{}: {}", source, unknown));
}

void RequireIdsWithin(const text::Tokenizer& tokenizer, int64_t vocabulary, const std::string& source) {
  Require(tokenizer.max_stated_id() < vocabulary,
          "{}: the tokenizer gives the token \"{}\" the id {}, and the model's vocabulary ends at {}; it belongs to "
          "another "
          "model, or its files add tokens that the model has no row for",
          source, tokenizer.TokenOf(tokenizer.max_stated_id()).value_or(""), tokenizer.max_stated_id(), vocabulary - 1);
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
