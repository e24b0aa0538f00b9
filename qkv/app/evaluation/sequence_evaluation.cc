#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <numbers>

#include "qkv/app/evaluation/evaluation.h"
#include "qkv/core/file.h"
#include "qkv/core/memory.h"
#include "qkv/core/parallel.h"
#include "qkv/model/layout/limits.h"
#include "qkv/report/text.h"
#include "qkv/train/run/config.h"
#include "qkv/train/run/initial_model.h"
#include "qkv/train/run/run_folder.h"

namespace qkv::app {
namespace {

namespace fs = std::filesystem;

// Sequences of a task: with one token asked in each, they give the share of right answers to half a percent.
constexpr int64_t kTaskSequences = 10'000;

struct Evaluated {
  std::string what;
  std::unique_ptr<train::SequenceSet> set;
  bool text = false;
};

// The share that the run held back for validation, if the model lies in a run's folder.
double ValidationShare(const fs::path& model) {
  const fs::path file = model / train::RunFolder::kConfig;
  train::TrainConfig config;
  if (FileExists(file)) config = train::Resolve(train::ReadSettings(file));
  return config.val_fraction;
}

Evaluated OpenText(const std::string& data, const std::string& split, const std::string& model, int64_t length) {
  const train::Text text(data);
  const double share = ValidationShare(model);
  const std::span<const std::byte> part = split == "train" ? text.TrainPart(share)
                                          : split == "val" ? text.ValidationPart(share)
                                                           : text.bytes();
  Require(part.size() >= 2, "evaluate: part {} of {} has {} bytes", split, data, part.size());
  const std::string what =
      split.empty() || split == "all"
          ? fmt::format("all {} bytes", report::WithCommas(std::ssize(text.bytes())))
          : fmt::format("{} of {} bytes, part {} (a share of {} validates)", report::WithCommas(std::ssize(part)),
                        report::WithCommas(std::ssize(text.bytes())), split, share);
  return {fmt::format("{}: {}", data, what), text.Windows(part, length), true};
}

Evaluated Open(const std::string& data, const std::string& split, const std::string& path,
               const model::SequenceConfig& config) {
  if (const std::optional<train::Task> task = train::ParseTask(data)) {
    Require(split.empty(), "evaluate: a task has no split \"{}\": its sequences are made as they are asked for", split);
    Require(config.vocabulary == config.outputs && config.meaning == model::TokenMeaning::kNumber,
            "evaluate: the model answers to bytes of a text, not to {}", data);
    const train::Sequences sequences{.task = *task, .length = config.length, .vocabulary = config.vocabulary};
    return {fmt::format("{}: {} sequences of {} tokens of {}", data, report::WithCommas(kTaskSequences), config.length,
                        config.vocabulary),
            train::TaskForEvaluation(sequences, kTaskSequences, /*seed=*/0)};
  }
  Require(train::IsText(data), "evaluate: the model is a sequence model; {} is neither a text nor task:NAME", data);
  Require(split != "test", "evaluate: a text has no split test, only train, val and all");
  Require(config.meaning == model::TokenMeaning::kByte && config.causal,
          "evaluate: the model does not predict the bytes of a text");
  return OpenText(data, split, path, config.length);
}

// Checks the cost of the model's own length, which its configuration chooses.
void RequireAffordable(const model::SequenceConfig& c) {
  const std::string what = fmt::format("evaluate: a sequence of {} tokens", c.length);
  model::RequireProportion(model::Cost(c), sizeof(float) * static_cast<double>(model::Parameters(c)), what,
                           "the length in config.json is out of proportion");
  const double logits = static_cast<double>(c.length) * static_cast<double>(c.outputs);
  const double activations = model::ActivationElements(c, 1, c.length);
  RequireMemory(sizeof(float) * NumThreads() * (logits + activations), what);
}

}  // namespace

SequenceEvaluation EvaluateSequences(const AnyModel& opened, const std::string& data, const std::string& split) {
  const model::SequenceModel<float> model = opened.BuildSequences();
  const Evaluated of = Open(data, split, opened.entry().path, model.config());
  RequireAffordable(model.config());
  SequenceEvaluation evaluation{of.what, of.text, train::Evaluate(model, *of.set, model.config().length)};
  const double loss = evaluation.score.loss();
  Require(std::isfinite(loss), "evaluate: the loss is {}: the model's answers are no numbers", loss);
  return evaluation;
}

io::Json ToJson(const SequenceEvaluation& evaluation) {
  const train::SequenceScore& score = evaluation.score;
  io::Json json = {{"loss", score.loss()},
                   {"perplexity", score.perplexity()},
                   {"top1", score.top1()},
                   {"tokens", score.tokens.rows}};
  if (evaluation.text) {
    json["bits_per_byte"] = score.loss() / std::numbers::ln2;
  } else {
    json["whole_sequences"] = score.whole_sequences();
    json["sequences"] = score.sequences;
  }
  return json;
}

}  // namespace qkv::app
