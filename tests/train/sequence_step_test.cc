// One step over a batch of sequences: however it is cut and shared out it is the same, tokens that nothing is asked of
// count for nothing, and steps learn a task; and what an evaluation counts is what is there.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "qkv/core/parallel.h"
#include "qkv/model/layout/bound_tensor.h"
#include "qkv/model/layout/tensor_table.h"
#include "qkv/train/network/initialise.h"
#include "qkv/train/network/sequence_network.h"
#include "qkv/train/optimizer/step.h"
#include "qkv/train/sequences/evaluation.h"
#include "tests/support/errors.h"
#include "tests/support/threads.h"

namespace qkv::train {
namespace {

constexpr int64_t kLength = 9, kTokens = 10;

model::SequenceConfig Small() {
  model::SequenceConfig config;
  config.vocabulary = config.outputs = kTokens;
  config.length = kLength;
  config.block.width = 32, config.depth = 2, config.block.attention.heads = 2, config.block.attention.head_width = 16,
  config.block.mlp.width = 128;
  return config;
}

template <typename T>
using SequenceStepper = Stepper<T, SequenceNetwork>;

template <typename T>
struct Training {
  explicit Training(Task task, const StepSettings& settings = {}, const OptimizerSettings& how = {})
      : sequences{.task = task, .length = kLength, .vocabulary = kTokens},
        network(Small()),
        optimizer(network.layout(), how),
        stepper(network, optimizer, settings),
        weights({network.layout().size()}) {
    Initialise<T>(network.config(), network.layout(), {.seed = 3}, weights);
  }
  // Adds sequences [first, first + count) of the list, the first of them being the step's `place`.
  void Add(int64_t first, int64_t count, int64_t place) {
    Tensor<int32_t> tokens({count, kLength});
    Tensor<int64_t> labels({count, kLength});
    Generate(sequences, 1, first, tokens.view(), labels.view());
    stepper.Add(weights, {.inputs = tokens, .labels = labels.span(), .first = place});
  }

  Sequences sequences;
  SequenceNetwork<T> network;
  Optimizer<T> optimizer;
  SequenceStepper<T> stepper;
  Tensor<T> weights;
};

constexpr OptimizerSettings kSgd{.kind = OptimizerSettings::Kind::kSgd, .weight_decay = 0, .clip_norm = 1};
const StepSettings kRandom{.smoothing = 0.1, .dropout = 0.2, .attention_dropout = 0.2, .drop_path = 0.3, .seed = 9};

// Weights after two steps of 130 sequences, three chunks' worth and more, added in one piece or in three.
Tensor<double> Trained(int threads, bool pieces) {
  const RestoreThreads restore;
  SetNumThreads(threads);
  Training<double> training(Task::kRecall, kRandom, kSgd);
  for (int64_t step = 0; step < 2; ++step) {
    if (pieces) {
      training.Add(130 * step, 1, 0), training.Add(130 * step + 1, 60, 1), training.Add(130 * step + 61, 69, 61);
    } else {
      training.Add(130 * step, 130, 0);
    }
    EXPECT_EQ(training.stepper.Apply(0.1, training.weights).sum.rows, 3 * 130) << "recall asks three of nine tokens";
  }
  return std::move(training.weights);
}

// In double, so that the order of sums is below what anything else would change.
TEST(SequenceStepper, CutsDoNotChangeWhatIsComputed) {
  const Tensor<double> serial = Trained(1, false);
  for (const int threads : {1, 2, 3}) {
    for (const bool pieces : {false, true}) {
      const Tensor<double> other = Trained(threads, pieces), again = Trained(threads, pieces);
      for (int64_t i = 0; i < serial.size(); ++i) ASSERT_NEAR(other[i], serial[i], 1e-11) << threads << pieces;
      EXPECT_EQ(std::memcmp(other.data(), again.data(), sizeof(double) * other.span().size()), 0);
    }
  }
}

TEST(SequenceStepper, ChecksLabels) {
  Training<float> training(Task::kCopy);
  const Tensor<int32_t> tokens({4, kLength});
  std::vector<int64_t> labels(4 * kLength, 0);
  const auto add = [&] { training.stepper.Add(training.weights, {.inputs = tokens, .labels = labels}); };
  labels[5] = kTokens;
  EXPECT_NE(ErrorMessage(add).find("expected labels from 0 to 9"), std::string::npos);
  labels.pop_back();
  EXPECT_NE(ErrorMessage(add).find("each of 36 rows, got 35"), std::string::npos);
  labels.assign(4 * kLength, kNotAsked);
  add();
  EXPECT_NE(ErrorMessage([&] { training.stepper.Apply(0.1, training.weights); }).find("nothing was added that counts"),
            std::string::npos);
}

// A model of inference with these weights.
template <typename T>
model::SequenceModel<T> MakeModel(const SequenceNetwork<T>& network, const Tensor<T>& weights) {
  std::vector<io::StoredTensor> stored;
  for (const Slot& slot : network.layout().slots()) {
    stored.push_back(io::Stored<T>(slot.name, network.layout().At(slot.name, weights.view())));
  }
  std::vector<model::BoundTensor> bound;
  const std::vector<model::TensorSpec> table = model::TensorTable(network.config());
  for (size_t i = 0; i < table.size(); ++i) bound.push_back({table[i], {&stored[i]}});
  return model::SequenceModel<T>(network.config(), bound);
}

TEST(SequenceStepper, LearnsATask) {
  Training<float> training(Task::kReverse, {}, {.weight_decay = 0.01});
  StepResult result;
  for (int64_t step = 0; step < 400; ++step) {
    training.Add(64 * step, 64, 0);
    result = training.stepper.Apply(3e-3, training.weights);
    if (step == 0) {
      EXPECT_NEAR(result.sum.loss / static_cast<double>(result.sum.rows), std::log(kTokens), 0.1)
          << "all alike at first";
    }
  }
  const auto model = MakeModel(training.network, training.weights);
  const SequenceScore score = Evaluate(model, *TaskForEvaluation(training.sequences, 200, 1), kLength);
  EXPECT_GT(score.top1(), 0.99);
  EXPECT_GT(score.whole_sequences(), 0.9);
  EXPECT_LT(score.perplexity(), 1.1);
}

TEST(SequenceEvaluation, CountsWhatIsThere) {
  const Training<float> training(Task::kSwap);
  const auto model = MakeModel(training.network, training.weights);
  for (const Task task : {Task::kNextToken, Task::kRecall}) {
    constexpr int64_t kCount = 300;
    const int64_t length = task == Task::kRecall ? 3 : kLength;  // a key, its value, and the question
    const auto set = TaskForEvaluation({.task = task, .length = length, .vocabulary = kTokens}, kCount, 5);
    Tensor<int32_t> tokens({kCount, length});
    Tensor<int64_t> labels({kCount, length});
    set->Get(0, tokens, labels);
    const Tensor<float> logits = model.Logits(tokens.view());
    double loss = 0;
    int64_t rows = 0, correct = 0, whole = 0;
    for (int64_t b = 0; b < kCount; ++b) {
      bool all = true;
      for (int64_t i = 0; i < length; ++i) {
        const int64_t label = labels[b * length + i];
        if (label == kNotAsked) continue;
        const float* z = logits.data() + (b * length + i) * kTokens;
        double sum = 0;
        for (int64_t c = 0; c < kTokens; ++c) sum += std::exp(static_cast<double>(z[c]));
        loss += std::log(sum) - static_cast<double>(z[label]);
        const bool right = std::max_element(z, z + kTokens) - z == label;
        all &= right, correct += right, ++rows;
      }
      whole += all;
    }
    const RestoreThreads restore;
    for (const int threads : {1, 2}) {
      SetNumThreads(threads);
      const SequenceScore score = Evaluate(model, *set, length);
      EXPECT_EQ(score.sequences, kCount);
      EXPECT_EQ(score.tokens.rows, rows);
      EXPECT_EQ(score.tokens.rows, task == Task::kRecall ? kCount : kCount * (length - 1));
      EXPECT_EQ(score.tokens.correct, correct);
      EXPECT_EQ(score.whole, whole);
      EXPECT_NEAR(score.tokens.loss, loss, 1e-5 * loss);  // exponentials in float
    }
    EXPECT_GT(whole, task == Task::kRecall ? 0 : -1) << "chance is right one time in ten";
  }
}

}  // namespace
}  // namespace qkv::train
