#include "qkv/lab/claims/translator.h"

#include <algorithm>
#include <filesystem>

#include "qkv/core/error.h"
#include "qkv/text/bleu.h"
#include "qkv/train/run/pair_model.h"
#include "qkv/train/sequences/pair_evaluation.h"

namespace qkv::lab::internal {
namespace {

namespace fs = std::filesystem;

model::TextCheckpoint OpenPair(const std::string& path) {
  model::TextCheckpoint checkpoint = model::TextCheckpoint::Open(path);
  Require(
      checkpoint.description.encoder && checkpoint.description.decoder,
      "claims: {} is {}, whose decoder reads no encoder; expected a model that translates, as qkv train pairs.tsv -o "
      "RUN makes it",
      path, checkpoint.description.architecture);
  return checkpoint;
}

// Of lines that the model can read, as many as asked for.
train::PairTexts ShortPairs(const std::string& file, const text::Tokenizer& tokenizer, int64_t length, int64_t lines) {
  const train::PairTexts all = train::ReadPairs(file);
  train::PairTexts texts;
  const auto fits = [&](const std::string& text) {
    const auto ids = tokenizer.Encode(text, {.add_special_tokens = false, .padding = text::Padding::kNone});
    return std::ssize(ids) < length;  // the end token follows
  };
  for (size_t i = 0; i < all.sources.size() && texts.size() < lines; ++i) {
    if (!fits(all.sources[i]) || !fits(all.targets[i])) continue;
    texts.sources.push_back(all.sources[i]), texts.targets.push_back(all.targets[i]);
  }
  Require(texts.size() > 1, "claims: {} has less than two lines of up to {} tokens a side", file, length);
  return texts;
}

fs::path FolderOf(const std::string& path) {
  return fs::is_directory(path) ? fs::path(path) : fs::path(path).parent_path();
}

std::string PairsOf(const Setup& setup) {
  return setup.pairs.empty() ? (FolderOf(setup.translator) / "test.tsv").string() : setup.pairs;
}

}  // namespace

Translator::Translator(const Setup& setup)
    : name_(setup.translator),
      model_(OpenPair(setup.translator)),
      tokenizer_(
          train::OpenTokenizer(FolderOf(setup.translator), train::TokensOfCheckpoint(OpenPair(setup.translator)))) {
  const int64_t length = std::min(model_.encoder().config().length, model_.decoder().config().length);
  Require(tokenizer_.tokenizer.max_id() < model_.encoder().config().vocabulary,
          "claims: {}: the tokenizer has ids up to {}, the model {} tokens", name_, tokenizer_.tokenizer.max_id(),
          model_.encoder().config().vocabulary);
  texts_ = ShortPairs(PairsOf(setup), tokenizer_.tokenizer, length, setup.lines);
  set_ = train::EncodePairs(texts_, tokenizer_, length);
}

double Translator::Bleu(const nn::CrossWeights& cross) const {
  int64_t longest = 0;
  for (int64_t i = 0; i < set_.size(); ++i) longest = std::max(longest, set_.target.length(i));
  model::GenerationSettings settings;
  settings.max_tokens = std::min<int64_t>(2 * longest + 16, std::max<int64_t>(1, model_.decoder().config().length - 1));
  settings.ends = {tokenizer_.tokens.end};
  settings.suppressed = {tokenizer_.tokens.padding};
  settings.cross = cross;
  return text::CorpusBleu(train::TranslateTexts(model_, texts_.sources, tokenizer_, settings), texts_.targets).score;
}

double Translator::Loss(const nn::CrossWeights& cross) const {
  return train::EvaluatePairs(model_, set_, tokenizer_.tokens, {}, cross).loss();
}

double Translator::LossWithOtherSources() const {
  train::PairSet shifted;
  for (int64_t i = 0; i < set_.size(); ++i) {
    shifted.source.Add(set_.source[(i + 1) % set_.size()]);
    shifted.target.Add(set_.target[i]);
  }
  return train::EvaluatePairs(model_, shifted, tokenizer_.tokens).loss();
}

}  // namespace qkv::lab::internal
