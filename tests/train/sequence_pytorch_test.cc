// A small sequence model against PyTorch: logits and gradients of the first step, and the losses of the first twenty,
// as decoder with rotary and with learned positions, and as encoder with sinusoidal ones. The goldens are
// generate_golden_sequences.py's.
#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "qkv/model/layout/tensor_table.h"
#include "qkv/train/network/loss.h"
#include "qkv/train/network/sequence_network.h"
#include "qkv/train/optimizer/optimizer.h"
#include "tests/support/difference.h"
#include "tests/train/pytorch_golden.h"

namespace qkv::train {
namespace {

constexpr int64_t kSteps = 20;

model::SequenceConfig MakeConfig(const std::string& positions) {
  model::SequenceConfig c;
  c.vocabulary = 11, c.outputs = 7, c.length = 10;
  c.block.width = 16, c.depth = 2, c.block.attention.heads = 2, c.block.attention.head_width = 8,
  c.block.mlp.width = 32;
  c.positions = *model::FindSequencePositions(positions);
  c.rotary_base = 100;
  c.causal = positions != "sinusoidal";
  return c;
}

template <typename To>
Tensor<To> WholeNumbers(const Tensor<float>& numbers) {
  Tensor<To> whole(numbers.shape());
  std::copy_n(numbers.data(), numbers.size(), whole.data());
  return whole;
}

class SequencePyTorch : public testing::TestWithParam<const char*> {
 protected:
  // Adds the gradient of the mean loss to `gradients`, and returns the loss. logits: [B, N, outputs] for its use.
  template <typename T>
  double Step(const SequenceNetwork<T>& network, const Tensor<T>& weights,
              typename SequenceNetwork<T>::Workspace& workspace, View<T> logits, Tensor<T>* gradients) const {
    network.Forward(weights, tokens_, {}, workspace, logits);
    const View<T> rows = logits.reshape({targets_.size(), network.config().outputs});
    const LossSum sum =
        CrossEntropy<T>(rows, targets_.span(), {.scale = 1 / static_cast<double>(targets_.size())}, rows);
    network.Backward(weights, logits, workspace, *gradients);
    return sum.loss / static_cast<double>(sum.rows);
  }
  template <typename T>
  Tensor<T> NewLogits(const SequenceNetwork<T>& network) const {
    return Tensor<T>({tokens_.dim(0), tokens_.dim(1), network.config().outputs});
  }
  // Those of every step, as the golden's generator trains.
  template <typename T>
  Tensor<double> Losses() const {
    const SequenceNetwork<T> network(MakeConfig(GetParam()));
    auto weights = golden_.ReadAll<T>(network.layout(), "weights/");
    Tensor<T> gradients({network.layout().size()}), logits = NewLogits(network);
    typename SequenceNetwork<T>::Workspace workspace;
    Optimizer<T> optimizer(network.layout(), {.weight_decay = 0.05});
    Tensor<double> losses({kSteps});
    for (double& loss : losses.span()) {
      loss = Step<T>(network, weights, workspace, logits, &gradients);
      optimizer.Step(4e-3, weights, gradients);
    }
    return losses;
  }
  template <typename T>
  Tensor<T> Gradients() const {
    const SequenceNetwork<T> network(MakeConfig(GetParam()));
    Tensor<T> gradients({network.layout().size()}), logits = NewLogits(network);
    typename SequenceNetwork<T>::Workspace workspace;
    Step<T>(network, golden_.ReadAll<T>(network.layout(), "weights/"), workspace, logits, &gradients);
    return gradients;
  }
  template <typename T>
  Tensor<T> Logits() const {
    const SequenceNetwork<T> network(MakeConfig(GetParam()));
    Tensor<T> logits = NewLogits(network);
    typename SequenceNetwork<T>::Workspace workspace;
    network.Forward(golden_.ReadAll<T>(network.layout(), "weights/"), tokens_, {}, workspace, logits);
    return logits;
  }

  const PyTorchGolden golden_{std::string("sequence_") + GetParam()};
  const Tensor<int32_t> tokens_ = WholeNumbers<int32_t>(golden_.Read<float>("tokens"));
  const Tensor<int64_t> targets_ = WholeNumbers<int64_t>(golden_.Read<float>("targets"));
};
INSTANTIATE_TEST_SUITE_P(Positions, SequencePyTorch, testing::Values("rotary", "learned", "sinusoidal"),
                         [](const auto& test) { return std::string(test.param); });

TEST_P(SequencePyTorch, LogitsAgreeAsFarAsItsOwnFloatOnesDo) {
  const auto single = golden_.Read<double>("logits"), exact = golden_.Read<double>("logits.float64");
  ForEachIsa([&] {
    EXPECT_LE(MaxDifference(Logits<float>(), exact), 4 * MaxDifference(single, exact) + 1e-6 * MaxAbs(exact));
  });
  EXPECT_LE(MaxDifference(Logits<double>(), exact), 1e-13 * std::max(1.0, MaxAbs(exact)));
}

TEST_P(SequencePyTorch, GradientsAgreeAsFarAsItsOwnFloatOnesDo) {
  const ParameterLayout layout(model::TensorTable(MakeConfig(GetParam())));
  ForEachIsa([&] { ExpectGradientsAsNear(golden_, layout, Gradients<float>()); });
}

// Where only the order of sums differs: some hundred roundings of 1.1e-16.
TEST_P(SequencePyTorch, GradientsInDoubleAgreeToTheLastDigits) {
  const ParameterLayout layout(model::TensorTable(MakeConfig(GetParam())));
  const auto exact = golden_.ReadAll<double>(layout, "gradients/", ".float64");
  EXPECT_LE(MaxDifference(Gradients<double>(), exact), 1e-13 * std::max(1.0, MaxAbs(exact)));
}

TEST_P(SequencePyTorch, LossesAgreeAsFarAsItsOwnFloatOnesDo) {
  const auto single = golden_.Read<double>("losses"), exact = golden_.Read<double>("losses.float64");
  ForEachIsa([&] {
    EXPECT_LE(MaxDifference(Losses<float>(), exact), 4 * MaxDifference(single, exact) + 1e-6 * MaxAbs(exact));
  });
}

// Rounding errors of 1e-16 after each of twenty steps, in a model that learns: losses fall to less than half.
TEST_P(SequencePyTorch, LossesInDoubleAgreeToTheLastDigits) {
  EXPECT_LE(MaxDifference(Losses<double>(), golden_.Read<double>("losses.float64")), 1e-11);
}

}  // namespace
}  // namespace qkv::train
