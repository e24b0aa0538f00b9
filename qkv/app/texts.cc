#include "qkv/app/texts.h"

#include <algorithm>

#include "qkv/core/error.h"
#include "qkv/core/file.h"
#include "qkv/core/parallel.h"
#include "qkv/text/clean.h"

namespace qkv::app {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxTextBytes = size_t{1} << 30;
constexpr size_t kTextsAtATime = 256;

text::Tokenizer OpenTokenizer(const fs::path& folder) {
  std::error_code ignored;
  const fs::path place = fs::is_directory(folder, ignored) ? folder : folder.parent_path();
  return text::Tokenizer::Open(place.empty() ? "." : place);
}

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
    : model_(model), tokenizer_(OpenTokenizer(folder)) {
  Require(tokenizer_.max_id() < model.vocabulary(),
          "{}: the tokenizer gives ids up to {}, and the model's vocabulary ends at {}; it belongs to another model",
          folder.string(), tokenizer_.max_id(), model.vocabulary() - 1);
  Require(model.text_preparation().unsupported.empty(),
          "{}: the tokenizer's setting {} is not supported; give ids of your own to qkv run", folder.string(),
          model.text_preparation().unsupported);
}

// The causal encoder that reads a token within the text sees nothing of what follows it.
text::TokenBatch TextEncoder::Encode(std::span<const std::string> texts) const {
  const model::SequenceConfig& config = model_.text().config();
  const model::TextPreparation& preparation = model_.text_preparation();
  const bool full = !config.causal || config.pool == model::TokenPool::kLast;
  const bool filled = full && !preparation.padding_id;
  const text::EncodeOptions options = {.max_length = model_.text_length(),
                                       .padding = filled ? text::Padding::kMaxLength : text::Padding::kNone};
  std::vector<std::vector<int32_t>> rows(texts.size());
  constexpr int64_t kGrain = 16;
  ParallelFor(std::ssize(texts), kGrain, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      rows[i] = tokenizer_.Encode(Clean(texts[i], preparation.cleaning), options);
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

Tensor<float> TextEncoder::Embed(std::span<const std::string> texts) const {
  auto vectors = Tensor<float>::Uninitialised({static_cast<int64_t>(texts.size()), model_.width()});
  model::TowerWorkspace workspace;
  for (size_t first = 0; first < texts.size(); first += kTextsAtATime) {
    const text::TokenBatch batch = Encode(texts.subspan(first, std::min(kTextsAtATime, texts.size() - first)));
    const View<const int32_t> ids(batch.ids.data(), {batch.rows, batch.columns});
    const View<float> out(vectors.data() + static_cast<int64_t>(first) * model_.width(), {batch.rows, model_.width()});
    model_.TextEmbeds(ids, {}, workspace, out);
  }
  return vectors;
}

std::vector<std::string> ReadTexts(const fs::path& file) {
  const std::string all = ReadFile(file, kMaxTextBytes);
  std::vector<std::string> texts;
  for (std::string_view rest = all; !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    texts.emplace_back(rest.substr(0, end));
    if (texts.back().ends_with('\r')) texts.back().pop_back();
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  while (!texts.empty() && texts.back().empty()) texts.pop_back();
  Require(!texts.empty(), "{}: expected texts, one a line, and there are none", file.string());
  return texts;
}

}  // namespace qkv::app
