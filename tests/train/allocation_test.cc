// Once each thread has seen its work, batches from memory and training steps allocate nothing.
#include <gtest/gtest.h>

#include "qkv/core/parallel.h"
#include "qkv/train/data/loader.h"
#include "qkv/train/network/sequence_network.h"
#include "qkv/train/optimizer/step.h"
#include "tests/support/allocations.h"
#include "tests/support/sequences.h"
#include "tests/support/threads.h"
#include "tests/train/data.h"
#include "tests/train/networks.h"

namespace qkv::train {
namespace {

TEST(LoaderAllocation, SteadyStateNeedsNone) {
  const Split split = NoiseSplit(96, 5, 16, 16);
  image::Preprocess preprocess{.resize = image::Preprocess::Resize::kExact,
                               .resize_height = 16,
                               .resize_width = 16,
                               .mean = {0.5f, 0.5f, 0.5f},
                               .std = {0.5f, 0.5f, 0.5f}};
  const Split large = NoiseSplit(96, 5, 24, 24);
  const ImageStore prepared(split, {.prepare = preprocess}), whole(large, {});
  for (const Augmentation::Crop crop : {Augmentation::Crop::kPadded, Augmentation::Crop::kResized}) {
    const int64_t begin = g_allocations.load();
    const bool resized = crop == Augmentation::Crop::kResized;
    // Crops of one size: those of any size would need more memory now and then, ever more rarely.
    Loader loader(resized ? whole : prepared, {.batch = 32,
                                               .preprocess = preprocess,
                                               .augmentation = Augmentation{.crop = crop,
                                                                            .least_area = 1,
                                                                            .greatest_ratio = 1,
                                                                            .flip = 0.5,
                                                                            .operations = 2,
                                                                            .jitter = 0.3,
                                                                            .hue = 0.1,
                                                                            .erase = 0.3,
                                                                            .mixup = 0.8,
                                                                            .cutmix = 1},
                                               .classes = 5,
                                               .threads = 2});
    for (int i = 0; i < 20; ++i) loader.Next();  // both threads have done everything then
    EXPECT_GT(g_allocations.load(), begin) << "nothing is counted";
    const int64_t before = g_allocations.load();
    for (int i = 0; i < 20; ++i) loader.Next();
    EXPECT_EQ(g_allocations.load() - before, 0) << static_cast<int>(crop);
  }
}

class NetworkAllocation : public testing::TestWithParam<NamedConfig> {};
INSTANTIATE_TEST_SUITE_P(Configs, NetworkAllocation, testing::ValuesIn(NamedConfigs()),
                         [](const auto& test) { return test.param.name; });

TEST_P(NetworkAllocation, OfASecondStepIsNone) {
  const Network<float> network(GetParam().config);
  const model::VitConfig& c = network.config();
  const auto weights = RandomWeights<float>(network.layout());
  Tensor<float> gradients({network.layout().size()});
  const auto pixels = Sampler(2).Normal<float>({4, c.channels, c.image_height, c.image_width});
  Tensor<float> logits({4, c.outputs()});
  for (const bool checkpoint : {false, true}) {
    NetworkOptions options = GetParam().options;
    options.checkpointing = checkpoint;
    Network<float>::Workspace workspace;
    const auto step = [&] {
      network.Forward(weights, pixels, options, workspace, logits);
      network.Backward(weights, logits, workspace, gradients);
    };
    for (int i = 0; i < 3; ++i) step();
    const int64_t before = g_allocations.load();
    for (int i = 0; i < 5; ++i) step();
    EXPECT_EQ(g_allocations.load(), before) << "checkpoint: " << checkpoint;
  }
}

class SequenceAllocation : public testing::TestWithParam<model::NamedSequence> {};
INSTANTIATE_TEST_SUITE_P(Configs, SequenceAllocation, testing::ValuesIn(model::NamedSequences()),
                         [](const auto& test) { return test.param.name; });

TEST_P(SequenceAllocation, OfASecondStepIsNone) {
  const SequenceNetwork<float> network(GetParam().config);
  const model::SequenceConfig& c = network.config();
  const auto weights = RandomWeights<float>(network.layout());
  const Tensor<int32_t> tokens = model::RandomTokens(c, 4, c.length);
  Tensor<float> gradients({network.layout().size()}), logits({4, c.length, c.outputs});
  for (const bool checkpoint : {false, true}) {
    SequenceNetwork<float>::Workspace workspace;
    const auto step = [&] {
      network.Forward(weights, tokens, {.dropout = 0.1, .checkpointing = checkpoint}, workspace, logits);
      network.Backward(weights, logits, workspace, gradients);
    };
    for (int i = 0; i < 3; ++i) step();
    const int64_t before = g_allocations.load();
    for (int i = 0; i < 5; ++i) step();
    EXPECT_EQ(g_allocations.load(), before) << "checkpoint: " << checkpoint;
  }
}

TEST(StepperAllocation, OfAThirdStepIsNone) {
  const RestoreThreads restore;
  const Network<float> network(NamedConfigs().front().config);
  const model::VitConfig& c = network.config();
  constexpr int64_t kImages = 40;
  const auto pixels = Sampler(2).Normal<float>({kImages, c.channels, c.image_height, c.image_width});
  std::vector<int64_t> labels(kImages);
  for (const int threads : {1, 2}) {
    SetNumThreads(threads);
    Optimizer<float> optimizer(network.layout(), {.clip_norm = 1, .average_decay = 0.9});
    Stepper<float> stepper(network, optimizer, {.smoothing = 0.1, .dropout = 0.1, .drop_path = 0.1});
    auto weights = RandomWeights<float>(network.layout());
    const auto step = [&] {
      stepper.Add(weights, {.inputs = pixels, .labels = labels});
      stepper.Apply(1e-3, weights);
    };
    step(), step();  // the second joins the arenas' blocks
    const int64_t allocations = g_allocations.load();
    for (int i = 0; i < 3; ++i) step();
    EXPECT_EQ(g_allocations.load(), allocations) << threads << " threads";
    EXPECT_GT(stepper.peak_bytes(), 4 * network.layout().size());
  }
}

}  // namespace
}  // namespace qkv::train
