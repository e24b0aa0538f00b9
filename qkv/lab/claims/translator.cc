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

fs::path FolderOf(const std::string& path) {
  return fs::is_directory(path) ? fs::path(path) : fs::path(path).parent_path();
}

std::string PairsOf(const Setup& setup) {
  return setup.pairs.empty() ? (FolderOf(setup.translator) / "test.tsv").string() : setup.pairs;
}

}  // namespace

Translator::Translator(const Setup& setup) : Translator(setup, OpenPair(setup.translator)) {}

Translator::Translator(const Setup& setup, const model::TextCheckpoint& checkpoint)
    : name_(setup.translator),
      model_(checkpoint),
      tokenizer_(train::OpenTokenizer(FolderOf(setup.translator), train::TokensOfCheckpoint(checkpoint))) {
  const int64_t length = std::min(model_.encoder().config().length, model_.decoder().config().length);
  Require(tokenizer_.tokenizer.max_stated_id() < model_.encoder().config().vocabulary,
          "claims: {}: the tokenizer has ids up to {}, the model {} tokens", name_,
          tokenizer_.tokenizer.max_stated_id(), model_.encoder().config().vocabulary);
  const train::PairTexts all = train::ReadPairs(PairsOf(setup));
  set_ = train::EncodePairs(all, tokenizer_, length, setup.lines);
  Require(set_.size() > 1, "claims: {} has less than two lines of up to {} tokens a side", PairsOf(setup), length);
  for (const int64_t line : set_.lines) {
    texts_.sources.push_back(all.sources[static_cast<size_t>(line)]);
    texts_.targets.push_back(all.targets[static_cast<size_t>(line)]);
  }
}

double Translator::Bleu(const nn::CrossWeights& cross) const {
  int64_t longest = 0;
  for (int64_t i = 0; i < set_.size(); ++i) longest = std::max(longest, set_.target.length(i));
  model::GenerationSettings settings = train::GreedySettings(longest, model_.decoder().config(), tokenizer_.tokens);
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
