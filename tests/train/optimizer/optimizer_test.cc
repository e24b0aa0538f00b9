// Optimizers against PyTorch's, averages against timm's; threads, clipping, and states that are stored and restored.
#include "qkv/train/optimizer/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "qkv/core/parallel.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/support/isas.h"
#include "tests/support/sampler.h"
#include "tests/support/threads.h"
#include "tests/train/golden.h"

namespace qkv::train {
namespace {

using Kind = OptimizerSettings::Kind;

class OptimizerTest : public IsaTest {};
QKV_FOR_ALL_ISAS(OptimizerTest);

// Slots that decay and such that do not, of sizes that leave padding; more than one piece of the pass.
model::VitConfig Small() {
  model::VitConfig config;
  config.image_height = config.image_width = 8;
  config.patch_height = config.patch_width = 4;
  config.block.width = 18, config.depth = 6, config.block.attention.heads = 2, config.block.attention.head_width = 9,
  config.block.mlp.width = 50;
  config.classes = 5;
  return config;
}

template <typename T>
bool SameBits(View<const T> a, View<const T> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), sizeof(T) * static_cast<size_t>(a.size())) == 0;
}

// One case of the golden, its few elements repeated over every slot of a model: those that do not decay must follow
// `plain`.
template <typename T>
void CheckCase(const Golden& golden, OptimizerSettings settings, const std::string& name, const std::string& plain,
               const std::string& average) {
  const ParameterLayout layout(Small());
  const auto first = golden.Get<T>("optimizer/weights"), gradients = golden.Get<T>("optimizer/gradients");
  const int64_t elements = first.size();
  settings.average_decay = 0.7;
  settings.average_warmup = average == "average_warm";
  Optimizer<T> optimizer(layout, settings);
  Tensor<T> w({layout.size()}), g({layout.size()});
  const auto fill = [&](Tensor<T>& buffer, const T* from) {
    for (const Slot& slot : layout.slots()) {
      for (int64_t i = 0; i < slot.shape.size(); ++i) buffer[slot.offset + i] = from[i % elements];
    }
  };
  fill(w, first.data());
  for (int64_t step = 0; step < gradients.dim(0); ++step) {
    fill(g, gradients.view().row(step));
    optimizer.Step(0.01, w, g);
    for (const T rest : g.span()) ASSERT_EQ(rest, 0) << "gradients are left zero";
  }
  EXPECT_EQ(optimizer.steps(), gradients.dim(0));
  const auto check = [&](const std::string& tensor, View<const T> buffer, bool decays) {
    for (const Slot& slot : layout.slots()) {
      if (slot.decays != decays) continue;
      for (int64_t begin = 0; begin + elements <= slot.shape.size(); begin += elements) {
        Tensor<T> part({elements});
        std::copy_n(buffer.data() + slot.offset + begin, elements, part.data());
        golden.ExpectRight(tensor, part);
      }
    }
  };
  check(name + "/weights", w.view(), true);
  check(name + "/" + average, optimizer.average(), true);
  if (plain.empty()) return;
  check(plain + "/weights", w.view(), false);
  check(plain + "/" + average, optimizer.average(), false);
  // Padding stays zero.
  std::vector<bool> used(static_cast<size_t>(layout.size()));
  for (const Slot& slot : layout.slots()) {
    std::fill_n(used.begin() + slot.offset, slot.shape.size(), true);
  }
  for (int64_t i = 0; i < w.size(); ++i) {
    if (!used[static_cast<size_t>(i)]) {
      ASSERT_EQ(w[i], 0) << i;
    }
  }
}

TEST_P(OptimizerTest, EqualsPyTorchAndTimm) {
  const Golden golden;
  for (const char* average : {"average", "average_warm"}) {
    const OptimizerSettings adamw{.weight_decay = 0.5, .beta2 = 0.98};
    CheckCase<float>(golden, adamw, "adamw", "adamw_plain", average);
    CheckCase<double>(golden, adamw, "adamw", "adamw_plain", average);
    for (const bool nesterov : {false, true}) {
      const OptimizerSettings sgd{.kind = Kind::kSgd, .weight_decay = 0.5, .nesterov = nesterov};
      const std::string name = nesterov ? "sgd_nesterov" : "sgd";
      CheckCase<float>(golden, sgd, name, "", average);
      CheckCase<double>(golden, sgd, name, "", average);
    }
  }
}

TEST(Optimizer, SgdDecaysOnlyWhatDecays) {
  const ParameterLayout layout(Small());
  Tensor<double> w({layout.size()}), g({layout.size()});
  std::fill_n(w.data(), w.size(), 1.0);
  Optimizer<double>(layout, {.kind = Kind::kSgd, .weight_decay = 0.5}).Step(0.1, w, g);
  for (const Slot& slot : layout.slots()) EXPECT_EQ(w[slot.offset], slot.decays ? 1 - 0.1 * 0.5 : 1) << slot.name;
}

TEST(Optimizer, ClipsTheNormOfAllGradients) {
  const ParameterLayout layout(Small());
  for (const double size : {1e-3, 10.0}) {
    Sampler sampler(3);
    const auto start = sampler.Normal<double>({layout.size()}), g = sampler.Normal<double>({layout.size()}, 0, size);
    double squares = 0;
    for (const double x : g.span()) squares += x * x;
    const double norm = std::sqrt(squares), scale = std::min(1.0, 2 / (norm + 1e-6));
    EXPECT_EQ(scale<1, size> 1) << "both cases are meant";
    auto clipped = start.Clone(), expected = start.Clone(), g1 = g.Clone(), g2 = g.Clone();
    for (double& x : g2.span()) x *= scale;
    // Not AdamW, whose first step does not depend on the size of a gradient.
    const double told = Optimizer<double>(layout, {.kind = Kind::kSgd, .clip_norm = 2}).Step(0.1, clipped, g1);
    Optimizer<double>(layout, {.kind = Kind::kSgd}).Step(0.1, expected, g2);
    EXPECT_NEAR(told, norm, 1e-12 * norm);
    for (int64_t i = 0; i < start.size(); ++i) ASSERT_NEAR(clipped[i], expected[i], 1e-14) << i;
  }
}

TEST_P(OptimizerTest, ThreadsDoNotChangeABit) {
  const ParameterLayout layout(Small());
  ASSERT_GT(layout.size(), 2 * 8192) << "of more than two pieces, or this proves nothing";
  const RestoreThreads restore;
  Tensor<float> weights[2];
  Tensor<float> averages[2];
  double norms[2];
  for (int run = 0; run < 2; ++run) {
    SetNumThreads(run == 0 ? 1 : 3);
    Sampler sampler(4);
    weights[run] = sampler.Normal<float>({layout.size()});
    Optimizer<float> optimizer(layout, {.clip_norm = 1, .average_decay = 0.9});
    for (int step = 0; step < 3; ++step) {
      std::vector<Tensor<float>> parts;
      for (int part = 0; part < 3; ++part) parts.push_back(sampler.Normal<float>({layout.size()}));
      const std::vector<View<float>> views(parts.begin(), parts.end());
      SumGradients<float>(views, 0, views[0].size());
      for (const float x : parts[2].span()) ASSERT_EQ(x, 0);
      norms[run] = optimizer.Step(0.01, weights[run], parts[0]);
    }
    averages[run] = Tensor<float>({layout.size()});
    std::copy_n(optimizer.average().data(), layout.size(), averages[run].data());
  }
  EXPECT_EQ(norms[0], norms[1]);
  EXPECT_TRUE(SameBits<float>(weights[0], weights[1]));
  EXPECT_TRUE(SameBits<float>(averages[0], averages[1]));
}

TEST(SumGradients, AddsInOrder) {
  Tensor<float> a({1}), b({1}), c({1});
  a[0] = 1e8f, b[0] = -1e8f, c[0] = 1;  // the other order would lose the 1
  const View<float> buffers[] = {a, b, c};
  SumGradients<float>(buffers, 0, buffers[0].size());
  EXPECT_EQ(a[0], 1);
  EXPECT_EQ(b[0], 0);
  EXPECT_EQ(c[0], 0);
}

TEST(Optimizer, ContinuesFromItsState) {
  const ParameterLayout layout(Small());
  for (const Kind kind : {Kind::kAdamW, Kind::kSgd}) {
    const OptimizerSettings settings{.kind = kind, .clip_norm = 5, .average_decay = 0.9};
    Sampler sampler(5);
    auto w = sampler.Normal<float>({layout.size()});
    Optimizer<float> whole(layout, settings), resumed(layout, settings);
    const auto step = [&](Optimizer<float>& optimizer, Tensor<float>& weights, uint64_t seed) {
      auto g = Sampler(seed).Normal<float>({layout.size()});
      optimizer.Step(0.01, weights, g);
    };
    for (uint64_t seed = 0; seed < 3; ++seed) step(whole, w, seed);
    TemporaryFolder folder;
    io::WriteSafeTensors(folder / "optimizer.safetensors", whole.Store());
    resumed.Restore(io::SafeTensors::Open(folder / "optimizer.safetensors"));
    EXPECT_EQ(resumed.steps(), 3);
    auto again = w.Clone();
    for (uint64_t seed = 3; seed < 6; ++seed) step(whole, w, seed), step(resumed, again, seed);
    EXPECT_TRUE(SameBits<float>(w, again));
    EXPECT_TRUE(SameBits(whole.average(), resumed.average()));
  }
}

TEST(Optimizer, RefusesAStateThatIsNotItsOwn) {
  const ParameterLayout layout(Small());
  TemporaryFolder folder;
  io::WriteSafeTensors(folder / "sgd.safetensors", Optimizer<float>(layout, {.kind = Kind::kSgd}).Store());
  model::VitConfig wider = Small();
  wider.block.mlp.width = 70;
  io::WriteSafeTensors(folder / "wider.safetensors", Optimizer<float>(ParameterLayout(wider), {}).Store());
  io::WriteSafeTensors(folder / "double.safetensors", Optimizer<double>(layout, {}).Store());
  io::WriteSafeTensors(folder / "adamw.safetensors", Optimizer<float>(layout, {}).Store());
  const auto message = [&](const char* file, const OptimizerSettings& settings = {}) {
    Optimizer<float> optimizer(layout, settings);
    return ErrorMessage([&] { optimizer.Restore(io::SafeTensors::Open(folder / file)); });
  };
  EXPECT_EQ(message("adamw.safetensors"), "");
  EXPECT_EQ(message("sgd.safetensors"), "optimizer: the state has no tensor 'optimizer.moment1'");
  EXPECT_EQ(message("adamw.safetensors", {.average_decay = 0.9}),
            "optimizer: the state has no tensor 'optimizer.average'");
  EXPECT_EQ(message("wider.safetensors"),
            fmt::format("optimizer: expected 'optimizer.moment1' as F32 [{}], got F32 [{}]", layout.size(),
                        ParameterLayout(wider).size()));
  EXPECT_EQ(message("double.safetensors"),
            fmt::format("optimizer: expected 'optimizer.moment1' as F32 [{0}], got F64 [{0}]", layout.size()));
}

TEST(Optimizer, ADivergedStepChangesNothing) {
  const ParameterLayout layout(Small());
  auto w = Sampler(6).Normal<float>({layout.size()});
  const auto before = w.Clone();
  Optimizer<float> optimizer(layout, {});
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    Tensor<float> g({layout.size()});
    g[layout.slots().back().offset] = bad;
    EXPECT_NE(ErrorMessage([&] { optimizer.Step(0.1, w, g); }).find("training has diverged"), std::string::npos);
  }
  EXPECT_EQ(optimizer.steps(), 0);
  EXPECT_TRUE(SameBits<float>(w, before));
}

TEST(Optimizer, RefusesSettingsOutOfRange) {
  EXPECT_THROW(Validate({.weight_decay = -1}), Error);
  EXPECT_THROW(Validate({.beta1 = 1}), Error);
  EXPECT_THROW(Validate({.beta2 = -0.1}), Error);
  EXPECT_THROW(Validate({.eps = 0}), Error);
  EXPECT_THROW(Validate({.momentum = 1}), Error);
  EXPECT_THROW(Validate({.clip_norm = -1}), Error);
  EXPECT_THROW(Validate({.average_decay = 1}), Error);
  EXPECT_NO_THROW(Validate({}));
}

}  // namespace
}  // namespace qkv::train
