// Models over tiles in training: gradients against differences of the loss and against PyTorch (generate_networks.py);
// inference against the training pass.
#include "qkv/mil/network.h"

#include <gtest/gtest.h>

#include <cstring>

#include "qkv/core/parallel.h"
#include "qkv/io/safetensors.h"
#include "qkv/train/network/loss.h"
#include "tests/support/difference.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/support/gradients.h"
#include "tests/support/sampler.h"
#include "tests/support/threads.h"

namespace qkv::mil {
namespace {

using nn::AttentionKind;

MilConfig SmallTransformer(AttentionKind kind, TilePositions positions, BagPool pool = BagPool::kGated) {
  MilConfig c;
  c.architecture = Architecture::kTransformer;
  c.inputs = 5, c.gate_width = 3, c.classes = {"a", "b", "c"};
  c.block = {.width = 8, .attention = {.kind = kind, .heads = 2, .head_width = 4}, .mlp = {.width = 6}};
  // Both maps of a head have pairs to turn by row and by column.
  if (kind == AttentionKind::kDifferential) c.block.attention.heads = 1, c.block.attention.head_width = 8;
  if (kind == AttentionKind::kLowRank || kind == AttentionKind::kSymmetric) c.block.attention.qk_width = 4;
  c.depth = pool == BagPool::kToken ? 2 : 1, c.positions = positions, c.pool = pool;
  return c;
}

MilConfig SmallGated() {
  MilConfig c;
  c.inputs = 5, c.gate_width = 3, c.classes = {"a", "b"};
  c.block.width = 7;
  return c;
}

template <typename T>
struct MilTrial {
  explicit MilTrial(const MilConfig& c, int64_t N = 5)
      : network(c),
        weights({network.layout().size()}),
        features(Sampler(3).Normal<T>({N, c.inputs})),
        places({N, 2}),
        dlogits(Sampler(5).Normal<T>({1, c.outputs()})),
        logits(dlogits.shape()),
        gradients(weights.shape()) {
    Sampler sampler(1);
    for (const train::Slot& slot : network.layout().slots()) {
      const bool gain = slot.role == model::Role::kNorm && slot.name.ends_with(".weight");
      for (int64_t i = 0; i < slot.shape.size(); ++i) {
        weights[slot.offset + i] = static_cast<T>((gain ? 1 : 0) + 0.3 * sampler.rng().Normal());
      }
    }
    for (int64_t i = 0; i < N; ++i) {
      places[2 * i] = static_cast<double>(i / 3), places[2 * i + 1] = static_cast<double>(i % 3);
    }
  }

  BagInput<T> input() const { return {features, places}; }
  void Forward() { network.Forward(weights, input(), options, workspace, logits); }
  void Backward() { network.Backward(weights, dlogits, workspace, gradients); }
  double Loss() {
    Forward();
    return WeightedSum(dlogits, logits);
  }

  train::NetworkOptions options;
  MilNetwork<T> network;
  Tensor<T> weights, features;
  Tensor<double> places;
  Tensor<T> dlogits, logits, gradients;
  typename MilNetwork<T>::Workspace workspace;
};

std::vector<MilConfig> SmallConfigs() {
  std::vector<MilConfig> configs = {SmallGated()};
  for (const BagPool pool : {BagPool::kGated, BagPool::kToken}) {
    for (const AttentionKind kind :
         {AttentionKind::kSeparate, AttentionKind::kShared, AttentionKind::kUnified, AttentionKind::kSharedKeyValue,
          AttentionKind::kLowRank, AttentionKind::kSymmetric, AttentionKind::kDifferential}) {
      configs.push_back(SmallTransformer(kind, TilePositions::kRotary, pool));
    }
    configs.push_back(SmallTransformer(AttentionKind::kMerged, TilePositions::kSines, pool));
    configs.push_back(SmallTransformer(AttentionKind::kSeparate, TilePositions::kNone, pool));
  }
  return configs;
}

std::string Describe(const MilConfig& c) { return ToJson(c).dump(); }

TEST(MilNetwork, GradientIsThatOfTheLoss) {
  const RestoreThreads restore;
  SetNumThreads(1);  // these passes are too short to share
  for (const MilConfig& config : SmallConfigs()) {
    SCOPED_TRACE(Describe(config));
    MilTrial<double> run(config);
    run.Forward();
    run.Backward();
    ExpectGradient([&] { return run.Loss(); }, run.weights, run.gradients, "weights");
  }
}

TEST(MilNetwork, GradientWithDropoutIsThatOfTheLoss) {
  for (const MilConfig& config : {SmallGated(), SmallTransformer(AttentionKind::kShared, TilePositions::kRotary)}) {
    SCOPED_TRACE(Describe(config));
    MilTrial<double> run(config);
    run.options = {.dropout = 0.3, .attention_dropout = config.depth > 0 ? 0.2 : 0, .seed = 7, .first_image = 2};
    run.Forward();
    run.Backward();
    ExpectGradient([&] { return run.Loss(); }, run.weights, run.gradients, "weights");
    run.options.checkpointing = true;
    const Tensor<double> before = run.gradients.Clone();
    std::fill_n(run.gradients.data(), run.gradients.size(), 0.0);
    run.Forward();
    run.Backward();
    EXPECT_EQ(MaxDifference(before, run.gradients), 0);
  }
}

TEST(MilNetwork, LogitsAndGradientsAreThoseOfPyTorch) {
  for (const char* name : {"abmil", "separate", "shared", "shared_kv", "symmetric", "merged"}) {
    SCOPED_TRACE(name);
    const auto folder = SourceFolder() / "tests/mil/golden" / (std::string("network_") + name);
    const io::SafeTensors golden = io::SafeTensors::Open(folder / "golden.safetensors");
    const MilConfig config = MilConfigFromJson(io::ReadJson(folder / "config.json"), name);
    EXPECT_EQ(ToJson(config), io::ReadJson(folder / "config.json"));
    const MilNetwork<float> network(config);
    const train::ParameterLayout& layout = network.layout();
    Tensor<float> weights({layout.size()}), gradients({layout.size()}), logits({1, config.outputs()});
    for (const train::Slot& slot : layout.slots()) {
      const auto* const stored = golden.Find("weights/" + slot.name);
      ASSERT_NE(stored, nullptr) << slot.name;
      ASSERT_EQ(stored->shape, slot.shape) << slot.name;
      io::ConvertTo(*stored, layout.At(slot.name, weights.view()).data());
    }
    const auto read = [&](const std::string& what) { return io::Convert<double>(*golden.Find(what)); };
    const auto expect = [&](const std::string& what, const Tensor<float>& got) {
      const Tensor<double> single = read(what), exact = read(what + ".float64");
      EXPECT_LE(MaxDifference(got, exact), 4 * MaxDifference(single, exact) + 1e-6 * MaxAbs(exact)) << what;
    };
    const auto features = io::Convert<float>(*golden.Find("features"));
    const Tensor<double> places = read("places");
    MilNetwork<float>::Workspace workspace;
    network.Forward(weights, {features, places}, {}, workspace, logits);
    expect("logits", logits);
    if (config.depth > 0) {
      MilNetwork<float>::Workspace other;
      const Tensor<float> answer = network.Infer(weights, {features, places}, other).logits;
      Tensor<float> row({1, config.outputs()});
      std::copy_n(answer.data(), answer.size(), row.data());
      expect("logits", row);
    }
    const int64_t label = 1;
    Tensor<float> dlogits(logits.shape());
    train::CrossEntropy<float>(logits, {&label, 1}, {}, dlogits);
    network.Backward(weights, dlogits, workspace, gradients);
    for (const train::Slot& slot : layout.slots()) {
      Tensor<float> of_slot(slot.shape);
      std::copy_n(gradients.data() + slot.offset, of_slot.size(), of_slot.data());
      // A bias of all scores moves no weight: its gradient is rounding alone.
      if (slot.name.ends_with("attention_c.bias")) {
        EXPECT_NEAR(of_slot[0], 0, 1e-6);
        continue;
      }
      expect("gradients/" + slot.name, of_slot);
    }
  }
}

TEST(MilNetwork, InferenceIsTheForwardPass) {
  for (const MilConfig& config : SmallConfigs()) {
    if (config.depth == 0) continue;
    SCOPED_TRACE(Describe(config));
    MilTrial<double> run(config, 40);
    run.Forward();
    const Answer answer = run.network.Infer(run.weights, run.input(), run.workspace);
    for (int64_t c = 0; c < config.outputs(); ++c) EXPECT_NEAR(answer.logits[c], run.logits[c], 1e-6);
    const int64_t K = config.pool == BagPool::kToken ? config.block.attention.heads : 1;
    ASSERT_EQ(answer.weights.shape(), Shape({K, 40}));
    ASSERT_EQ(answer.scores.shape(), Shape({K, 40}));
    for (int64_t k = 0; k < K; ++k) {
      double sum = 0;
      for (int64_t i = 0; i < 40; ++i) sum += answer.weights[k * 40 + i];
      EXPECT_LT(sum, 1 + 1e-5);
      EXPECT_GT(sum, config.pool == BagPool::kGated ? 1 - 1e-5 : -1);
      // Weights are the softmax of the scores, up to what the class token has.
      if (config.block.attention.maps() > 1) continue;
      const double first = std::log(answer.weights[k * 40]) - answer.scores[k * 40];
      EXPECT_NEAR(std::log(answer.weights[k * 40 + 7]) - answer.scores[k * 40 + 7], first, 1e-4);
    }
  }
}

TEST(MilNetwork, ThreadsDoNotChangeABit) {
  const RestoreThreads restore;
  for (const MilConfig& config : {SmallGated(), SmallTransformer(AttentionKind::kSeparate, TilePositions::kRotary)}) {
    MilTrial<float> one(config, 700), three(config, 700);
    SetNumThreads(1);
    one.options.dropout = three.options.dropout = 0.2;
    one.Forward(), one.Backward();
    SetNumThreads(3);
    three.Forward(), three.Backward();
    EXPECT_EQ(std::memcmp(one.gradients.data(), three.gradients.data(), sizeof(float) * one.gradients.size()), 0);
  }
}

TEST(MilNetwork, RefusesWhatTilesCannotHave) {
  const auto message = [](const MilConfig& c) { return ErrorMessage([&] { MilNetwork<float> network(c); }); };
  EXPECT_NE(message(SmallTransformer(AttentionKind::kGaussian, TilePositions::kNone)).find("scattered"),
            std::string::npos);
  EXPECT_NE(message(SmallTransformer(AttentionKind::kMerged, TilePositions::kRotary)).find("sines or none"),
            std::string::npos);
  MilConfig c = SmallGated();
  c.classes = {"one"};
  EXPECT_NE(message(c), "");
  EXPECT_NE(ErrorMessage([] { TilePlaces({}, 0); }), "");
  io::Json json = ToJson(SmallGated());
  json["more"] = 1;
  EXPECT_NE(ErrorMessage([&] { MilConfigFromJson(json, "x"); }), "");
}

}  // namespace
}  // namespace qkv::mil
