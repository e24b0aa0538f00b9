// Once each thread has seen its work, batches from memory and training steps allocate nothing.
#include <gtest/gtest.h>

#include "qkv/train/loader.h"
#include "tests/support/allocations.h"
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
    options.checkpoint = checkpoint;
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

}  // namespace
}  // namespace qkv::train
