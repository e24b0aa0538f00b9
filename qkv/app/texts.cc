#include "qkv/app/texts.h"

#include <algorithm>

#include "qkv/core/error.h"
#include "qkv/core/file.h"

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

}  // namespace

TextEncoder::TextEncoder(const model::TwoTowerModel& model, const fs::path& folder)
    : model_(model), tokenizer_(OpenTokenizer(folder)) {
  Require(tokenizer_.max_id() < model.vocabulary(),
          "{}: the tokenizer gives ids up to {}, and the model's vocabulary ends at {}; it belongs to another model",
          folder.string(), tokenizer_.max_id(), model.vocabulary() - 1);
}

Tensor<float> TextEncoder::Embed(std::span<const std::string> texts) const {
  // Both originals are trained on texts of full length: CLIP reads the end token and ignores what follows, SigLIP reads
  // the last token.
  const text::EncodeOptions options = {.max_length = model_.text_length(), .padding = text::Padding::kMaxLength};
  auto vectors = Tensor<float>::Uninitialised({static_cast<int64_t>(texts.size()), model_.width()});
  model::TowerWorkspace workspace;
  for (size_t first = 0; first < texts.size(); first += kTextsAtATime) {
    const text::TokenBatch batch =
        tokenizer_.EncodeBatch(texts.subspan(first, std::min(kTextsAtATime, texts.size() - first)), options);
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
