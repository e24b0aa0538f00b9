#include "qkv/lab/ablation_speed.h"

#include <algorithm>
#include <memory>

#include "qkv/core/turns.h"
#include "qkv/lab/timed_step.h"
#include "qkv/model/model.h"
#include "qkv/model/sequence/pair_generation.h"
#include "qkv/model/sequence/sequence_model.h"
#include "qkv/train/run/pair_model.h"

namespace qkv::lab {
namespace {

// Images, sequences or pairs of one inference pass.
constexpr int64_t kTogether = 32;

// The model of an arm, for timing.
class Contestant {
 public:
  virtual ~Contestant() = default;
  virtual void Train() = 0;             // one step on a batch
  virtual void Infer() = 0;             // on several inputs
  virtual int64_t trained() const = 0;  // inputs of a step
  virtual int64_t inferred() const { return kTogether; }
};

class OnImages : public Contestant {
 public:
  explicit OnImages(const PlannedRun& run)
      : batch_(run.config.batch),
        model_(model::Model::Load(run.folder / "last")),
        step_(model_.config(), run.config.batch, run.config.precision == "bf16"),
        pixels_(RandomInputs(model_.config(), kTogether)),
        logits_({kTogether, model_.config().outputs()}) {}
  void Train() override { step_.Run(); }
  void Infer() override { model_.Forward(pixels_, workspace_, {.logits = logits_}); }
  int64_t trained() const override { return batch_; }

 private:
  int64_t batch_;
  model::Model model_;
  TimedStep<train::Network> step_;
  Tensor<float> pixels_, logits_;
  model::Workspace<float> workspace_;
};

class OnSequences : public Contestant {
 public:
  explicit OnSequences(const PlannedRun& run)
      : batch_(run.config.batch),
        model_(model::SequenceModel<float>::Load(run.folder / "last")),
        step_(model_.config(), run.config.batch, run.config.precision == "bf16"),
        tokens_(RandomInputs(model_.config(), kTogether)),
        logits_({kTogether, model_.config().length, model_.config().outputs}) {}
  void Train() override { step_.Run(); }
  void Infer() override { model_.Logits(tokens_.view(), arena_, logits_); }
  int64_t trained() const override { return batch_; }

 private:
  int64_t batch_;
  model::SequenceModel<float> model_;
  TimedStep<train::SequenceNetwork> step_;
  Tensor<int32_t> tokens_;
  Tensor<float> logits_;
  Arena arena_;
};

// Times a step on the first batch of the training, and answers of equally many tokens to the first validation lines.
class OnPairs : public Contestant {
 public:
  explicit OnPairs(const PlannedRun& run)
      : data_(*run.data->pairs),
        checkpoint_(model::TextCheckpoint::Open(run.folder / "last")),
        model_(checkpoint_),
        network_(train::PairOfCheckpoint(checkpoint_)),
        optimizer_(network_.layout(), {}),
        stepper_(network_, optimizer_, {.bf16 = run.config.precision == "bf16"}),
        weights_({network_.layout().size()}) {
    train::CopyPairWeights(checkpoint_, network_, weights_);
    const train::PairBatches batches(data_.train, run.config.batch, static_cast<uint64_t>(run.config.seed));
    train::FillPairBatch(data_.train, batches.Lines(0), data_.tokenizer.tokens, &batch_);
    const train::TokenTexts& texts = data_.validation.source;
    for (int64_t i = 0; i < std::min(kTogether, texts.size()); ++i)
      sources_.emplace_back(texts[i].begin(), texts[i].end());
    settings_.max_tokens = settings_.min_tokens =
        std::min<int64_t>(kTokens, std::max<int64_t>(1, model_.decoder().config().length - 1));
    settings_.ends = {data_.tokenizer.tokens.end};
    settings_.suppressed = {data_.tokenizer.tokens.padding};
  }
  void Train() override {
    stepper_.Add(weights_, {.inputs = batch_.input(), .labels = batch_.labels.span()});
    stepper_.Apply(1e-6, weights_);
  }
  void Infer() override { GenerateFromSources(model_, sources_, data_.tokenizer.tokens.start, settings_); }
  int64_t trained() const override { return batch_.size(); }
  int64_t inferred() const override { return std::ssize(sources_); }

 private:
  static constexpr int64_t kTokens = 16;

  const train::PairData& data_;
  model::TextCheckpoint checkpoint_;
  model::TextModel model_;
  train::PairNetwork<float> network_;
  train::Optimizer<float> optimizer_;
  train::Stepper<float, train::PairNetwork> stepper_;
  Tensor<float> weights_;
  train::PairBatch batch_;
  std::vector<std::vector<int32_t>> sources_;
  model::GenerationSettings settings_;
};

std::unique_ptr<Contestant> MakeContestant(const PlannedRun& run) {
  if (run.data->images) return std::make_unique<OnImages>(run);
  if (run.data->pairs) return std::make_unique<OnPairs>(run);
  return std::make_unique<OnSequences>(run);
}

}  // namespace

std::map<std::string, Speed, std::less<>> MeasureSpeeds(const std::vector<PlannedRun>& runs) {
  constexpr double kSecondsEach = 0.5;
  const auto any = std::ranges::find_if(runs, HasEnded);
  if (any == runs.end()) return {};
  std::vector<const PlannedRun*> first;  // the first run of each arm
  for (const PlannedRun& run : runs) {
    if (run.data != any->data || !HasEnded(run)) continue;
    if (std::ranges::find(first, run.arm, &PlannedRun::arm) == first.end()) first.push_back(&run);
  }
  std::vector<std::unique_ptr<Contestant>> contestants;
  for (const PlannedRun* run : first) contestants.push_back(MakeContestant(*run));
  const double seconds = kSecondsEach * static_cast<double>(first.size());
  const std::vector<Times> answering = Interleave(first.size(), seconds, [&](size_t i) { contestants[i]->Infer(); });
  const std::vector<Times> training = Interleave(first.size(), seconds, [&](size_t i) { contestants[i]->Train(); });
  std::map<std::string, Speed, std::less<>> speeds;
  for (size_t i = 0; i < first.size(); ++i) {
    speeds[first[i]->arm->name] = {
        .training = 1e3 * static_cast<double>(contestants[i]->trained()) / training[i].best(),
        .inference = 1e3 * static_cast<double>(contestants[i]->inferred()) / answering[i].best()};
  }
  return speeds;
}

}  // namespace qkv::lab
