// The learner of encoder-decoders.
#include <algorithm>
#include <optional>

#include "qkv/core/parallel.h"
#include "qkv/core/thread_count.h"
#include "qkv/text/bleu.h"
#include "qkv/train/network/pair_network.h"
#include "qkv/train/run/image_run.h"
#include "qkv/train/run/pair_model.h"
#include "qkv/train/sequences/pair_evaluation.h"

namespace qkv::train {
namespace {

class PairLearner : public Learner {
 public:
  PairLearner(const TrainConfig& config, const PairData& data, const RunFolder& folder, const Observer& observer,
              Communicator* processes)
      : config_(config),
        data_(data),
        observer_(observer),
        processes_(processes ? *processes : alone_),
        batches_(data.train, config.batch, static_cast<uint64_t>(config.seed)) {
    if (folder.HasCheckpoint()) {
      network_.emplace(PairOfCheckpoint(model::TextCheckpoint::Open(folder.last())));
    } else if (!config.model.empty()) {
      source_ = model::TextCheckpoint::Open(config.model);
      PairConfig pair = PairOfCheckpoint(*source_);
      // Positions are computed, so there can be as many as requested.
      for (model::SequenceConfig* part : {&pair.encoder, &pair.decoder}) {
        part->length = std::max(part->length, config.length);
      }
      network_.emplace(pair);
    } else {
      network_.emplace(NewPair(config, data));
    }
    RequireFit();
    zeros_ = Tensor<float>({network_->config().decoder.outputs});
  }

  const char* unit() const override { return "tokens"; }
  const ParameterLayout& layout() const override { return network_->layout(); }
  uint64_t data() const override { return data_.fingerprint; }

  void Initialise(View<float> weights) override {
    if (source_) {
      CopyPairWeights(*source_, *network_, weights);
    } else {
      network_->Initialise(MakeInitialisation(config_), weights);
    }
    source_.reset();
    const std::string obstruction = model::HfMarianObstruction(network_->config().encoder, network_->config().decoder);
    if (!obstruction.empty() && observer_.note) {
      observer_.note(fmt::format("transformers' Marian will not load it: {}", obstruction));
    }
  }

  void Open(Optimizer<float>& optimizer, int64_t step) override {
    StepSettings settings = MakeStepSettings(config_);
    settings.processes = &processes_;
    stepper_.emplace(*network_, optimizer, settings);
    step_ = step;
  }

  int64_t steps_per_epoch() const override { return std::max<int64_t>(1, batches_.size() / config_.accumulate); }

  StepResult Step(double learning_rate, View<float> weights) override {
    int64_t first = 0;  // of a batch in the step
    for (int64_t i = 0; i < config_.accumulate; ++i) {
      const std::vector<int64_t> lines = batches_.Lines(step_ * config_.accumulate + i);
      const int64_t B = std::ssize(lines), begin = B * processes_.rank() / processes_.size(),
                    end = B * (processes_.rank() + 1) / processes_.size();
      const bool none = begin == end;  // fewer lines than processes: a line without labels
      const auto share =
          std::span(lines).subspan(static_cast<size_t>(none ? 0 : begin), static_cast<size_t>(none ? 1 : end - begin));
      FillPairBatch(data_.train, share, data_.tokenizer.tokens, &batch_, lines);
      if (none) std::ranges::fill(batch_.labels.span(), kIgnoredLabel);
      stepper_->Add(weights, {.inputs = batch_.input(), .labels = batch_.labels.span(), .first = first + begin},
                    i + 1 == config_.accumulate);
      first += B;
    }
    ++step_;
    return stepper_->Apply(learning_rate, weights);
  }

  int64_t evaluated_rows() const override {
    const TokenTexts& target = data_.validation.target;
    int64_t tokens = 0;
    for (int64_t i = 0; i < target.size(); ++i) tokens += target.length(i);
    return tokens;
  }

  // With several processes, each evaluates everything and gets the same result.
  std::optional<Score> Evaluate(View<const float> weights, const std::function<bool()>& stop) override {
    const model::TextModel model = MakeTextModel(*network_, weights);
    const PairScore pairs = EvaluatePairs(model, data_.validation, data_.tokenizer.tokens, observer_.stop);
    Score score{.loss = pairs.loss(), .top1 = pairs.top1(), .by_loss = true, .more = {}};
    score.more.emplace_back("perplexity", pairs.perplexity());
    if (config_.valid_lines > 0) score.more.emplace_back("bleu", Bleu(model));
    if (stop()) return {};
    return score;
  }

  std::string config() const override { return PairConfigJson(network_->config(), data_.tokenizer.tokens); }
  std::vector<std::pair<std::string, std::string>> files() const override {
    std::vector<std::pair<std::string, std::string>> files = data_.tokenizer.files;
    files.emplace_back("generation_config.json",
                       model::HfMarianGeneration(network_->config().decoder, data_.tokenizer.tokens).dump(2) + "\n");
    return files;
  }
  std::vector<io::StoredTensor> Tensors(View<const float> weights) const override {
    return PairTensors(*network_, weights, zeros_);
  }

 private:
  void RequireFit() const {
    const model::SequenceConfig& c = network_->config().encoder;
    const int64_t ids =
        std::max(data_.tokenizer.tokenizer.max_stated_id(), data_.tokenizer.target.max_stated_id()) + int64_t{1};
    Require(c.vocabulary >= ids, "train: a model of {} tokens cannot take the {} of the tokenizer", c.vocabulary, ids);
  }

  // BLEU on the first lines, each by its most probable tokens, at most twice as long as the longest target.
  double Bleu(const model::TextModel& model) const {
    const PairTexts& texts = data_.validation_texts;
    std::vector<std::string> sources, targets;
    size_t longest = 0;
    const int64_t length = network_->config().encoder.length;
    for (size_t i = 0; i < texts.sources.size() && std::ssize(sources) < config_.valid_lines; ++i) {
      const text::EncodeOptions plain{.add_special_tokens = false, .padding = text::Padding::kNone};
      const size_t target = data_.tokenizer.target.Encode(texts.targets[i], plain).size();
      const size_t source = data_.tokenizer.tokenizer.Encode(texts.sources[i], plain).size();
      if (static_cast<int64_t>(source) + 1 > length) continue;
      longest = std::max(longest, target);
      sources.push_back(texts.sources[i]), targets.push_back(texts.targets[i]);
    }
    if (sources.empty()) return 0;
    const model::GenerationSettings settings =
        GreedySettings(static_cast<int64_t>(longest), network_->config().decoder, data_.tokenizer.tokens);
    const std::vector<std::string> written = TranslateTexts(model, sources, data_.tokenizer, settings, observer_.stop);
    if (observer_.stop && observer_.stop()) return 0;
    return text::CorpusBleu(written, targets).score;
  }

  const TrainConfig& config_;
  const PairData& data_;
  const Observer& observer_;
  Communicator alone_;
  Communicator& processes_;
  PairBatches batches_;
  std::optional<model::TextCheckpoint> source_;  // source of the initial weights
  std::optional<PairNetwork<float>> network_;
  std::optional<Stepper<float, PairNetwork>> stepper_;
  int64_t step_ = 0;
  PairBatch batch_;
  Tensor<float> zeros_;  // the bias of the logits, which Marian stores
};

}  // namespace

Outcome Train(const TrainConfig& config, const PairData& data, RunFolder& folder, const Observer& observer,
              Communicator* processes) {
  const ThreadCount threads(config.threads > 0 ? static_cast<int>(config.threads) : NumThreads());
  PairLearner learner(config, data, folder, observer, processes);
  return RunLoop(config, learner, folder, observer, processes);
}

}  // namespace qkv::train
