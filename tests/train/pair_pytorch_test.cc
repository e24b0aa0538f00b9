// A small MarianMTModel of transformers in training: logits, the loss with label smoothing and all gradients of the
// first step, and the losses of the first twelve. The golden is generate_golden_pairs.py's.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "qkv/train/network/loss.h"
#include "qkv/train/network/pair_network.h"
#include "qkv/train/optimizer/optimizer.h"
#include "tests/support/difference.h"
#include "tests/train/pytorch_golden.h"

namespace qkv::train {
namespace {

constexpr double kSmoothing = 0.1;

PairConfig MarianConfig() {
  PairConfig pair;
  model::SequenceConfig& c = pair.encoder;
  c.vocabulary = 19, c.outputs = 0, c.length = 12, c.depth = 1;
  c.block.width = 16, c.block.attention.heads = 2, c.block.attention.head_width = 8, c.block.mlp.width = 24;
  c.block.mlp.activation = simd::Activation::kRelu;
  c.block.norm_place = nn::NormPlace::kAfter, c.final_norm = false, c.block.norm.eps = 1e-5;
  c.positions = model::SequencePositions::kSinusoidalHalves, c.embedding_scale = 4, c.head_bias = false;
  pair.decoder = c;
  pair.decoder.depth = 2, pair.decoder.block.mlp.width = 20, pair.decoder.outputs = 19;
  pair.decoder.causal = pair.decoder.tied_head = true;
  pair.decoder.block.cross = c.block.attention;
  pair.decoder.block.cross->of_source = true;
  return pair;
}

template <typename To>
Tensor<To> WholeNumbers(const Tensor<float>& numbers) {
  Tensor<To> whole(numbers.shape());
  std::copy_n(numbers.data(), numbers.size(), whole.data());
  return whole;
}

class PairPyTorch : public testing::Test {
 protected:
  template <typename T>
  struct Run {
    double loss = 0;
    Tensor<T> logits, gradients;
  };

  PairInput input() const { return {source_.view(), source_lengths_.view(), target_.view(), target_lengths_.view()}; }
  template <typename T>
  Run<T> Step(const PairNetwork<T>& network, const Tensor<T>& weights) const {
    Run<T> run{0, Tensor<T>({3, target_.dim(1), 19}), Tensor<T>({network.layout().size()})};
    typename PairNetwork<T>::Workspace workspace;
    network.Forward(weights, input(), {}, workspace, run.logits);
    Tensor<T> d = run.logits.Clone();
    const View<T> rows = d.view().reshape({labels_.size(), 19});
    const auto counted = labels_.size() - std::ranges::count(labels_.span(), kIgnoredLabel);
    const LossSum sum = CrossEntropy<T>(rows, labels_.span(),
                                        {.smoothing = kSmoothing, .scale = 1 / static_cast<double>(counted)}, rows);
    EXPECT_EQ(sum.rows, counted);
    run.loss = sum.loss / static_cast<double>(sum.rows);
    network.Backward(weights, d, workspace, run.gradients);
    // Padding means nothing, and the golden has zeros there.
    for (int64_t row = 0; row < labels_.size(); ++row) {
      if (labels_[row] == kIgnoredLabel) std::fill_n(run.logits.data() + row * 19, 19, T{0});
    }
    return run;
  }
  template <typename T>
  Run<T> First() const {
    const PairNetwork<T> network(MarianConfig());
    return Step<T>(network, golden_.ReadAll<T>(network.layout(), "weights/"));
  }
  template <typename T>
  Tensor<double> Losses() const {
    const PairNetwork<T> network(MarianConfig());
    auto weights = golden_.ReadAll<T>(network.layout(), "weights/");
    Optimizer<T> optimizer(network.layout(), {.weight_decay = 0.05});
    Tensor<double> losses({golden_.Read<double>("losses").size()});
    for (double& loss : losses.span()) {
      Run<T> run = Step<T>(network, weights);
      loss = run.loss;
      optimizer.Step(5e-3, weights, run.gradients);
    }
    return losses;
  }

  const PyTorchGolden golden_{"pairs"};
  const Tensor<int32_t> source_ = WholeNumbers<int32_t>(golden_.Read<float>("source")),
                        target_ = WholeNumbers<int32_t>(golden_.Read<float>("target"));
  const Tensor<int64_t> labels_ = WholeNumbers<int64_t>(golden_.Read<float>("labels")),
                        source_lengths_ = WholeNumbers<int64_t>(golden_.Read<float>("source_lengths")),
                        target_lengths_ = WholeNumbers<int64_t>(golden_.Read<float>("target_lengths"));
};

TEST_F(PairPyTorch, LogitsAndGradientsAgreeAsFarAsItsOwnFloatOnesDo) {
  const auto single = golden_.Read<double>("logits"), exact = golden_.Read<double>("logits.float64");
  const PairNetwork<float> network(MarianConfig());
  ForEachIsa([&] {
    const Run<float> run = First<float>();
    EXPECT_LE(MaxDifference(run.logits, exact), 4 * MaxDifference(single, exact) + 1e-6 * MaxAbs(exact));
    ExpectGradientsAsNear(golden_, network.layout(), run.gradients);
  });
}

// Where only the order of sums differs: some hundred roundings of 1.1e-16.
TEST_F(PairPyTorch, InDoubleTheyAgreeToTheLastDigits) {
  const PairNetwork<double> network(MarianConfig());
  const Run<double> run = First<double>();
  const auto logits = golden_.Read<double>("logits.float64");
  EXPECT_LE(MaxDifference(run.logits, logits), 1e-13 * std::max(1.0, MaxAbs(logits)));
  const auto gradients = golden_.ReadAll<double>(network.layout(), "gradients/", ".float64");
  EXPECT_LE(MaxDifference(run.gradients, gradients), 1e-13 * std::max(1.0, MaxAbs(gradients)));
}

TEST_F(PairPyTorch, LossesAgreeAsFarAsItsOwnFloatOnesDo) {
  const auto single = golden_.Read<double>("losses"), exact = golden_.Read<double>("losses.float64");
  EXPECT_LE(MaxDifference(Losses<float>(), exact), 4 * MaxDifference(single, exact) + 1e-6 * MaxAbs(exact));
  EXPECT_LE(MaxDifference(Losses<double>(), exact), 1e-11);
}

}  // namespace
}  // namespace qkv::train
