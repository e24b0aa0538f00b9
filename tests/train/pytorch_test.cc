// A small ViT against PyTorch: gradients of the first step, and the losses of the first twenty. The goldens are
// generate_golden.py's, one for each kind of queries and keys.
#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>
#include <tuple>

#include "qkv/train/network/loss.h"
#include "qkv/train/network/network.h"
#include "qkv/train/optimizer/optimizer.h"
#include "tests/support/difference.h"
#include "tests/train/pytorch_golden.h"

namespace qkv::train {
namespace {

constexpr int64_t kBatch = 6, kClasses = 5, kSteps = 20;

model::VitConfig MakeConfig(const std::string& kind) {
  model::VitConfig c;
  c.image_height = c.image_width = 12, c.patch_height = c.patch_width = 4;
  c.block.width = 16, c.depth = 2, c.block.attention.heads = 2, c.block.attention.head_width = 8,
  c.block.mlp.width = 32, c.classes = kClasses;
  if (kind == "shared") c.block.attention.kind = nn::AttentionKind::kShared;
  if (kind == "differential") c.block.attention.kind = nn::AttentionKind::kDifferential;
  c.block.attention.bias = kind != "no_bias";
  c.block.attention.qk_norm = kind == "qk_norm";
  return c;
}

class PyTorch : public testing::TestWithParam<const char*> {
 protected:
  // Adds the gradient of the mean loss to `gradients`, and returns the loss.
  template <typename T>
  double Step(const Network<T>& network, const Tensor<T>& weights, Tensor<T>* gradients) {
    Tensor<T> logits({kBatch, kClasses});
    network.Forward(weights, golden_.Read<T>("pixels"), {}, workspace<T>(), logits);
    int64_t labels[kBatch];
    for (int64_t b = 0; b < kBatch; ++b) labels[b] = b % kClasses;
    const LossSum sum = CrossEntropy<T>(logits, std::span<const int64_t>(labels), {.scale = 1.0 / kBatch}, logits);
    network.Backward(weights, logits, workspace<T>(), *gradients);
    return sum.loss / static_cast<double>(sum.rows);
  }
  // Those of every step, as generate_golden.py trains.
  template <typename T>
  Tensor<double> Losses() {
    const Network<T> network(MakeConfig(GetParam()));
    auto weights = golden_.ReadAll<T>(network.layout(), "weights/");
    Tensor<T> gradients({network.layout().size()});
    Optimizer<T> optimizer(network.layout(), {.weight_decay = 0.05});
    Tensor<double> losses({kSteps});
    for (double& loss : losses.span()) {
      loss = Step<T>(network, weights, &gradients);
      optimizer.Step(2e-3, weights, gradients);
    }
    return losses;
  }
  template <typename T>
  Tensor<T> Gradients() {
    const Network<T> network(MakeConfig(GetParam()));
    Tensor<T> gradients({network.layout().size()});
    Step<T>(network, golden_.ReadAll<T>(network.layout(), "weights/"), &gradients);
    return gradients;
  }

  const PyTorchGolden golden_{GetParam()};

 private:
  template <typename T>
  typename Network<T>::Workspace& workspace() {
    return std::get<typename Network<T>::Workspace>(workspaces_);
  }

  std::tuple<Network<float>::Workspace, Network<double>::Workspace> workspaces_;
};
INSTANTIATE_TEST_SUITE_P(Kinds, PyTorch, testing::Values("separate", "shared", "no_bias", "qk_norm", "differential"),
                         [](const auto& test) { return std::string(test.param); });

TEST_P(PyTorch, GradientsAgreeAsFarAsItsOwnFloatOnesDo) {
  const ParameterLayout layout(MakeConfig(GetParam()));
  ForEachIsa([&] { ExpectGradientsAsNear(golden_, layout, Gradients<float>()); });
}

// Where only the order of sums differs: some hundred roundings of 1.1e-16.
TEST_P(PyTorch, GradientsInDoubleAgreeToTheLastDigits) {
  const ParameterLayout layout(MakeConfig(GetParam()));
  const auto exact = golden_.ReadAll<double>(layout, "gradients/", ".float64");
  EXPECT_LE(MaxDifference(Gradients<double>(), exact), 1e-13 * std::max(1.0, MaxAbs(exact)));
}

TEST_P(PyTorch, LossesAgreeAsFarAsItsOwnFloatOnesDo) {
  const auto single = golden_.Read<double>("losses"), exact = golden_.Read<double>("losses.float64");
  ForEachIsa([&] {
    EXPECT_LE(MaxDifference(Losses<float>(), exact), 4 * MaxDifference(single, exact) + 1e-6 * MaxAbs(exact));
  });
}

// Rounding errors of 1e-16 after each of twenty steps, in a model that learns: losses fall to a tenth.
TEST_P(PyTorch, LossesInDoubleAgreeToTheLastDigits) {
  EXPECT_LE(MaxDifference(Losses<double>(), golden_.Read<double>("losses.float64")), 1e-11);
}

}  // namespace
}  // namespace qkv::train
