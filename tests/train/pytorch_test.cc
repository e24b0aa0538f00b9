// A small ViT against PyTorch: gradients of the first step, and the losses of the first twenty. The goldens are
// generate_golden.py's, one for each kind of queries and keys.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <tuple>

#include "qkv/io/safetensors.h"
#include "qkv/train/loss.h"
#include "qkv/train/network.h"
#include "qkv/train/optimizer.h"
#include "tests/support/difference.h"
#include "tests/support/files.h"
#include "tests/support/isas.h"

namespace qkv::train {
namespace {

constexpr int64_t kBatch = 6, kClasses = 5, kSteps = 20;

model::VitConfig ConfigOf(const std::string& kind) {
  model::VitConfig c;
  c.image_height = c.image_width = 12, c.patch_height = c.patch_width = 4;
  c.width = 16, c.depth = 2, c.heads = 2, c.head_width = 8, c.mlp_width = 32, c.classes = kClasses;
  if (kind == "shared") c.attention = nn::AttentionKind::kShared;
  c.qkv_bias = kind != "no_bias";
  c.qk_norm = kind == "qk_norm";
  return c;
}

class PyTorch : public testing::TestWithParam<const char*> {
 protected:
  // Under every instruction set of the machine.
  template <typename F>
  static void ForEachIsa(F&& f) {
    const simd::Isa before = simd::ActiveIsa();
    for (const IsaParameter& parameter : IsaParameters()) {
      SCOPED_TRACE(std::string(simd::Name(parameter.isa)) + (parameter.portable ? ", portable" : ""));
      simd::SetIsa(parameter.isa);
      simd::internal::SetPortableForTest(parameter.portable);
      f();
    }
    simd::internal::SetPortableForTest(false);
    simd::SetIsa(before);
  }
  void SetUp() override {
    golden_ = io::SafeTensors::Open(SourceFolder() / "tests/train/golden" / (std::string(GetParam()) + ".safetensors"));
  }
  template <typename T>
  Tensor<T> Read(const std::string& name) const {
    const io::StoredTensor* stored = golden_.Find(name);
    Require(stored != nullptr, "the golden has no {}", name);
    return io::Convert<T>(*stored);
  }
  // Weights, or gradients, in the layout of the network; `suffix`: of the names' precision.
  template <typename T>
  Tensor<T> ReadAll(const ParameterLayout& layout, const std::string& what, const std::string& suffix = "") const {
    Tensor<T> buffer({layout.size()});
    for (const Slot& slot : layout.slots()) {
      const Tensor<T> values = Read<T>(what + slot.name + suffix);
      std::copy_n(values.data(), values.size(), layout.At(slot.name, buffer.view()).data());
    }
    return buffer;
  }

  // Adds the gradient of the mean loss to `gradients`, and returns the loss.
  template <typename T>
  double Step(const Network<T>& network, const Tensor<T>& weights, Tensor<T>* gradients) {
    Tensor<T> logits({kBatch, kClasses});
    network.Forward(weights, Read<T>("pixels"), {}, workspace<T>(), logits);
    int64_t labels[kBatch];
    for (int64_t b = 0; b < kBatch; ++b) labels[b] = b % kClasses;
    const LossSum sum = CrossEntropy<T>(logits, std::span<const int64_t>(labels), {.scale = 1.0 / kBatch}, logits);
    network.Backward(weights, logits, workspace<T>(), *gradients);
    return sum.loss / static_cast<double>(sum.rows);
  }
  // Those of every step, as generate_golden.py trains.
  template <typename T>
  Tensor<double> Losses() {
    const Network<T> network(ConfigOf(GetParam()));
    auto weights = ReadAll<T>(network.layout(), "weights/");
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
    const Network<T> network(ConfigOf(GetParam()));
    Tensor<T> gradients({network.layout().size()});
    Step<T>(network, ReadAll<T>(network.layout(), "weights/"), &gradients);
    return gradients;
  }

 private:
  template <typename T>
  typename Network<T>::Workspace& workspace() {
    return std::get<typename Network<T>::Workspace>(workspaces_);
  }

  io::SafeTensors golden_;
  std::tuple<Network<float>::Workspace, Network<double>::Workspace> workspaces_;
};
INSTANTIATE_TEST_SUITE_P(Kinds, PyTorch, testing::Values("separate", "shared", "no_bias", "qk_norm"),
                         [](const auto& test) { return std::string(test.param); });

// The design's criterion for agreement with an original, tensor by tensor.
TEST_P(PyTorch, GradientsAgreeAsFarAsItsOwnFloatOnesDo) {
  const ParameterLayout layout(ConfigOf(GetParam()));
  ForEachIsa([&] {
    const auto ours = Gradients<float>();
    for (const Slot& slot : layout.slots()) {
      const auto single = Read<double>("gradients/" + slot.name),
                 exact = Read<double>("gradients/" + slot.name + ".float64");
      Tensor<double> of_slot(exact.shape());
      for (int64_t i = 0; i < of_slot.size(); ++i) of_slot[i] = static_cast<double>(ours[slot.offset + i]);
      EXPECT_LE(MaxDifference(of_slot, exact), 4 * MaxDifference(single, exact) + 1e-6 * MaxAbs(exact)) << slot.name;
    }
  });
}

// Where only the order of sums differs: some hundred roundings of 1.1e-16.
TEST_P(PyTorch, GradientsInDoubleAgreeToTheLastDigits) {
  const ParameterLayout layout(ConfigOf(GetParam()));
  const auto exact = ReadAll<double>(layout, "gradients/", ".float64");
  EXPECT_LE(MaxDifference(Gradients<double>(), exact), 1e-13 * std::max(1.0, MaxAbs(exact)));
}

TEST_P(PyTorch, LossesAgreeAsFarAsItsOwnFloatOnesDo) {
  const auto single = Read<double>("losses"), exact = Read<double>("losses.float64");
  ForEachIsa([&] {
    EXPECT_LE(MaxDifference(Losses<float>(), exact), 4 * MaxDifference(single, exact) + 1e-6 * MaxAbs(exact));
  });
}

// Rounding errors of 1e-16 after each of twenty steps, in a model that learns: losses fall to a tenth.
TEST_P(PyTorch, LossesInDoubleAgreeToTheLastDigits) {
  EXPECT_LE(MaxDifference(Losses<double>(), Read<double>("losses.float64")), 1e-11);
}

}  // namespace
}  // namespace qkv::train
