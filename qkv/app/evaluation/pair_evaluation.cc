#include "qkv/app/evaluation/pair_evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "qkv/app/open/hub.h"
#include "qkv/app/texts/cross_rule.h"
#include "qkv/app/texts/language.h"
#include "qkv/core/error.h"
#include "qkv/core/file.h"
#include "qkv/report/text.h"
#include "qkv/text/chrf.h"
#include "qkv/train/run/config.h"
#include "qkv/train/run/pair_model.h"
#include "qkv/train/run/run_folder.h"

namespace qkv::app {
namespace {

namespace fs = std::filesystem;

// The lines of a split that the model's run made; the model lies in the run's folder, or in its last/ or best/.
train::PairTexts OpenPairs(const std::string& data, const std::string& split, const std::string& model) {
  train::PairTexts all = train::ReadPairs(data);
  if (split.empty() || split == "all") return all;
  Require(split != "test", "evaluate: pairs have no split test, only train, val and all");
  const fs::path folder = fs::absolute(FolderOf(model)).lexically_normal();
  fs::path file = folder / train::RunFolder::kConfig;
  if (!FileExists(file)) file = (folder.has_filename() ? folder : folder.parent_path()).parent_path() / file.filename();
  Require(FileExists(file), "evaluate: {} is no run of qkv train, which says what --split {} is; omit it", model,
          split);
  const train::TrainConfig config = train::Resolve(train::ReadSettings(file));
  Require(config.valid.empty(), "evaluate: {} was validated on {}; give that file instead of --split {}", model,
          config.valid, split);
  auto [train, validation] = train::SplitPairs(std::move(all), config.val_fraction);
  return split == "train" ? std::move(train) : std::move(validation);
}

// Sources as the model reads them, targets with the end token; without lines of more than `length` tokens on a side.
train::PairSet Encode(const train::PairTexts& texts, const LanguageModel& model, int32_t end, int64_t length) {
  train::PairSet set;
  const std::vector<std::vector<int32_t>> sources = model.Encode(texts.sources);
  for (int64_t line = 0; line < texts.size(); ++line) {
    const auto at = static_cast<size_t>(line);
    std::vector<int32_t> target = model.target_tokenizer().Encode(
        texts.targets[at], {.add_special_tokens = false, .padding = text::Padding::kNone});
    target.push_back(end);
    if (std::ssize(sources[at]) > length || std::ssize(target) > length) {
      ++set.left_out;
      continue;
    }
    set.source.Add(sources[at]), set.target.Add(target);
    set.lines.push_back(line);
  }
  return set;
}

}  // namespace

PairEvaluation EvaluatePairs(const AnyModel& opened, const std::string& data, const PairEvaluationOptions& options) {
  const std::string& path = opened.entry().path;
  const LanguageModel language = opened.BuildLanguage();
  const model::TextModel& model = language.model();
  const model::TextDescription& d = model.description();
  Require(d.encoder && d.decoder,
          "evaluate: {} is {}, which does not translate; expected an encoder-decoder, which qkv train "
          "pairs.tsv -o RUN makes",
          path, d.architecture);
  const model::TextTokens tokens = train::TokensOfCheckpoint(language.checkpoint());
  train::PairTexts texts = OpenPairs(data, options.split, path);
  if (options.lines > 0 && options.lines < texts.size()) {
    texts.sources.resize(static_cast<size_t>(options.lines)), texts.targets.resize(static_cast<size_t>(options.lines));
  }
  PairEvaluation evaluation;
  evaluation.beams = options.beams;
  evaluation.stem = options.stem;
  evaluation.data = fmt::format("{}: {} pairs{}", data, report::WithCommas(texts.size()),
                                options.split.empty() || options.split == "all" ? "" : ", part " + options.split);
  const int64_t length = std::min(d.encoder->length, d.decoder->length);
  const train::PairSet set = Encode(texts, language, tokens.end, length);
  Require(set.size() > 0, "evaluate: every line of {} has more than {} tokens on a side, which {} takes", data, length,
          path);
  evaluation.lines = set.size(), evaluation.left_out = set.left_out, evaluation.length = length;
  std::vector<std::vector<int32_t>> sources;
  std::vector<std::string> targets;
  for (int64_t i = 0; i < set.size(); ++i) {
    sources.emplace_back(set.source[i].begin(), set.source[i].end());
    targets.push_back(texts.targets[static_cast<size_t>(set.lines[static_cast<size_t>(i)])]);
  }
  evaluation.cross = options.cross;
  if (!evaluation.cross.slope && evaluation.cross.rule == nn::CrossRule::kGaussian) {
    evaluation.cross.slope = train::SourceTokensPerTargetToken(set);
  }
  evaluation.score = train::EvaluatePairs(model, set, tokens, {}, evaluation.cross);
  model::GenerationSettings settings = language.Settings();
  settings.beams = options.beams;
  settings.sampling.temperature = 0;
  settings.cross = evaluation.cross;
  const auto progress = [&](size_t done) {
    if (options.progress) options.progress(static_cast<int64_t>(done), set.size());
  };
  std::vector<std::string> translations;
  for (Written& written : language.Write(sources, {.together = 16, .settings = settings}, progress)) {
    std::ranges::replace_if(
        written.text, [](char c) { return c == '\n' || c == '\r'; }, ' ');
    translations.push_back(std::move(written.text));
  }
  evaluation.bleu = text::CorpusBleu(translations, targets);
  evaluation.chrf = text::CorpusChrf(translations, targets);
  evaluation.rouge = text::MeanRouge(translations, targets, options.stem);
  evaluation.translations.resize(static_cast<size_t>(texts.size()));
  for (size_t i = 0; i < translations.size(); ++i) {
    evaluation.translations[static_cast<size_t>(set.lines[i])] = std::move(translations[i]);
  }
  return evaluation;
}

io::Json ToJson(const PairEvaluation& e) {
  io::Json json = {{"lines", e.lines},
                   {"left_out", e.left_out},
                   {"beams", e.beams},
                   {"bleu", e.bleu.score},
                   {"bleu_precisions", e.bleu.precisions},
                   {"brevity_penalty", e.bleu.brevity},
                   {"chrf", e.chrf},
                   {"rouge1", 100 * e.rouge.rouge1},
                   {"rouge2", 100 * e.rouge.rouge2},
                   {"rougeL", 100 * e.rouge.rouge_l},
                   {"loss", e.score.loss()},
                   {"perplexity", e.score.perplexity()},
                   {"top1", e.score.top1()},
                   {"tokens", e.score.tokens.rows},
                   {"signatures", {{"bleu", text::BleuScore::kSignature}, {"chrf", text::kChrfSignature}}}};
  if (const std::string cross = DescribeCrossWeights(e.cross); !cross.empty()) json["cross"] = cross;
  return json;
}

}  // namespace qkv::app
