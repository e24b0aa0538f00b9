// One step over a batch: however it is cut, shared out or accumulated, it is the same; and steps bring the loss down.
#include "qkv/train/optimizer/step.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "qkv/core/parallel.h"
#include "qkv/train/network/initialise.h"
#include "tests/support/errors.h"
#include "tests/support/sampler.h"
#include "tests/support/threads.h"
#include "tests/train/networks.h"

namespace qkv::train {
namespace {

model::VitConfig Small() {
  model::VitConfig config;
  config.image_height = config.image_width = 16;
  config.patch_height = config.patch_width = 4;
  config.block.width = 24, config.depth = 2, config.block.attention.heads = 2, config.block.attention.head_width = 12,
  config.block.mlp.width = 48;
  config.classes = 5;
  return config;
}

template <typename T>
struct Data {
  explicit Data(int64_t images) : pixels(Sampler(1).Normal<T>({images, 3, 16, 16})), targets({images, 5}) {
    for (int64_t i = 0; i < images; ++i) {
      labels.push_back(i % 5);
      targets[i * 5 + i % 5] = T(0.75), targets[i * 5 + (i + 1) % 5] = T(0.25);
    }
  }
  /// Images [begin, end), of a step that begins with image 0.
  Batch<T> Part(int64_t begin, int64_t end, bool soft = false) const {
    Batch<T> batch{.inputs = pixels.view().slice(0, begin, end), .first = begin};
    if (soft) {
      batch.targets = targets.view().slice(0, begin, end);
    } else {
      batch.labels = std::span(labels).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
    }
    return batch;
  }

  Tensor<T> pixels, targets;
  std::vector<int64_t> labels;
};

constexpr OptimizerSettings kSgd{.kind = OptimizerSettings::Kind::kSgd, .weight_decay = 0, .clip_norm = 1};

// Weights after `steps` steps of Sgd, whose steps are the gradients themselves.
template <typename T>
struct Trained {
  Tensor<T> weights;
  std::vector<StepResult> results;
};
template <typename T, typename Add>
Trained<T> Train(int steps, const StepSettings& settings, Add&& add) {
  const Network<T> network(Small());
  Optimizer<T> optimizer(network.layout(), kSgd);
  Stepper<T> stepper(network, optimizer, settings);
  Trained<T> trained;
  trained.weights = Tensor<T>({network.layout().size()});
  Initialise<T>(network.config(), network.layout(), {.seed = 3}, trained.weights);
  for (int step = 0; step < steps; ++step) {
    add(stepper, trained.weights.view());
    trained.results.push_back(stepper.Apply(0.1, trained.weights));
  }
  return trained;
}

template <typename T>
void ExpectNear(const Trained<T>& a, const Trained<T>& b, double tolerance) {
  double greatest = 0;
  for (int64_t i = 0; i < a.weights.size(); ++i) {
    greatest = std::max(greatest, std::abs(static_cast<double>(a.weights[i] - b.weights[i])));
  }
  EXPECT_LE(greatest, tolerance);
  for (size_t i = 0; i < a.results.size(); ++i) {
    EXPECT_EQ(a.results[i].sum.rows, b.results[i].sum.rows);
    EXPECT_EQ(a.results[i].sum.correct, b.results[i].sum.correct);
    EXPECT_NEAR(a.results[i].sum.loss, b.results[i].sum.loss, tolerance * b.results[i].sum.loss);
    EXPECT_NEAR(a.results[i].gradient_norm, b.results[i].gradient_norm, tolerance * b.results[i].gradient_norm);
  }
}

const StepSettings kRandom{.smoothing = 0.1, .dropout = 0.2, .attention_dropout = 0.2, .drop_path = 0.3, .seed = 9};

// In double, so that the order of sums is below what anything else would change. Dropout and drop path draw for an
// image what they draw for it in any chunk.
TEST(Stepper, CutsDoNotChangeWhatIsComputed) {
  const Data<double> data(70);  // chunks of 16 rows' worth, the last of them short
  const auto whole = [&](bool soft) {
    return [&data, soft](Stepper<double>& stepper, View<const double> w) { stepper.Add(w, data.Part(0, 70, soft)); };
  };
  const auto parts = [&](bool soft) {
    return [&data, soft](Stepper<double>& stepper, View<const double> w) {
      for (const auto& [begin, end] : {std::pair<int64_t, int64_t>(0, 1), {1, 33}, {33, 70}}) {
        stepper.Add(w, data.Part(begin, end, soft));
      }
    };
  };
  for (const bool soft : {false, true}) {
    const RestoreThreads restore;
    SetNumThreads(1);
    const Trained<double> serial = Train<double>(3, kRandom, whole(soft));
    ExpectNear(Train<double>(3, kRandom, parts(soft)), serial, 1e-11);
    for (const int threads : {2, 3}) {
      SetNumThreads(threads);
      const Trained<double> shared = Train<double>(3, kRandom, whole(soft));
      ExpectNear(shared, serial, 1e-11);
      ExpectNear(Train<double>(3, kRandom, parts(soft)), serial, 1e-11);
      // And once more, to the bit.
      const Trained<double> again = Train<double>(3, kRandom, whole(soft));
      EXPECT_EQ(std::memcmp(shared.weights.data(), again.weights.data(), sizeof(double) * shared.weights.span().size()),
                0);
    }
  }
}

TEST(Stepper, EveryStepDrawsAnew) {
  const Data<double> data(10);
  const auto add = [&](Stepper<double>& stepper, View<const double> w) { stepper.Add(w, data.Part(0, 10)); };
  const StepSettings dropped{.dropout = 0.5, .seed = 9};
  const Network<double> network(Small());
  Optimizer<double> optimizer(network.layout(), kSgd);
  Stepper<double> stepper(network, optimizer, dropped);
  Tensor<double> weights({network.layout().size()});
  Initialise<double>(network.config(), network.layout(), {.seed = 3}, weights);
  std::vector<double> losses;
  for (int step = 0; step < 3; ++step) {
    add(stepper, weights.view());
    losses.push_back(stepper.Apply(0, weights).sum.loss);  // no learning: only what is dropped differs
  }
  EXPECT_NE(losses[0], losses[1]);
  EXPECT_NE(losses[1], losses[2]);
  StepSettings other = dropped;
  other.seed = 10;
  EXPECT_NE(Train<double>(1, other, add).results[0].sum.loss, losses[0]);
  EXPECT_EQ(Train<double>(1, dropped, add).results[0].sum.loss, losses[0]);
}

TEST(Stepper, LearnsItsBatch) {
  const Data<float> data(40);
  const Network<float> network(Small());
  Optimizer<float> optimizer(network.layout(), {.weight_decay = 0.01});
  Stepper<float> stepper(network, optimizer, {});
  Tensor<float> weights({network.layout().size()});
  Initialise<float>(network.config(), network.layout(), {}, weights);
  StepResult result;
  for (int step = 0; step < 200; ++step) {
    stepper.Add(weights, data.Part(0, 40));
    result = stepper.Apply(3e-3, weights);
    if (step == 0) {
      EXPECT_NEAR(result.sum.loss / 40, std::log(5), 0.1) << "every class alike at first";
    }
  }
  EXPECT_EQ(result.sum.correct, 40);
  EXPECT_LT(result.sum.loss / 40, 0.05);
}

// Checkpoints refuse a bandwidth below its bound: neither weights nor their average may come there.
TEST(Stepper, BandwidthsStayInTheirBounds) {
  constexpr auto kLeast = static_cast<float>(nn::kLeastBandwidth);
  model::VitConfig config = Small();
  config.block.attention.kind = nn::AttentionKind::kGaussian;
  const Data<float> data(10);
  const Network<float> network(config);
  OptimizerSettings settings = kSgd;
  settings.average_decay = 0.9;
  int64_t bounded = 0;
  for (uint64_t seed = 0; seed < 5; ++seed) {
    Optimizer<float> optimizer(network.layout(), settings);
    Stepper<float> stepper(network, optimizer, {});
    Tensor<float> weights = RandomWeights<float>(network.layout(), seed);
    for (int step = 0; step < 4; ++step) {
      stepper.Add(weights, data.Part(0, 10));
      stepper.Apply(100, weights);  // far beyond
      for (const Slot& slot : network.layout().slots()) {
        if (!slot.name.ends_with("bandwidth")) continue;
        for (int64_t i = slot.offset; i < slot.offset + slot.shape.size(); ++i) {
          EXPECT_GE(weights[i], kLeast);
          EXPECT_GE(optimizer.average().data()[i], kLeast);
          bounded += weights[i] == kLeast;
        }
      }
    }
  }
  EXPECT_GT(bounded, 0);
}

TEST(Stepper, ForgetsAStepThatFailed) {
  Data<float> data(8);
  const Network<float> network(Small());
  Optimizer<float> optimizer(network.layout(), kSgd);
  Stepper<float> stepper(network, optimizer, {});
  Tensor<float> weights({network.layout().size()});
  Initialise<float>(network.config(), network.layout(), {}, weights);
  EXPECT_NE(ErrorMessage([&] { stepper.Apply(0.1, weights); }).find("nothing was added"), std::string::npos);
  stepper.Add(weights, data.Part(0, 8));
  const StepResult good = stepper.Apply(0, weights);

  data.pixels[5] = NAN;
  stepper.Add(weights, data.Part(0, 8));
  EXPECT_NE(ErrorMessage([&] { stepper.Apply(0, weights); }).find("training has diverged"), std::string::npos);
  data.pixels = Data<float>(8).pixels;
  Batch<float> wrong = data.Part(0, 8);
  const std::vector<int64_t> labels = {0, 1, 2, 3, 4, 5, 0, 1};
  wrong.labels = labels;
  EXPECT_NE(ErrorMessage([&] { stepper.Add(weights, wrong); }).find("expected labels from 0 to 4"), std::string::npos);
  wrong.labels = wrong.labels.first(3);
  EXPECT_NE(ErrorMessage([&] { stepper.Add(weights, wrong); }).find("got 3 labels"), std::string::npos);

  stepper.Add(weights, data.Part(0, 8));
  const StepResult again = stepper.Apply(0, weights);
  EXPECT_EQ(again.sum.loss, good.sum.loss);
  EXPECT_EQ(again.gradient_norm, good.gradient_norm);
}

TEST(PlanStep, CutsEvenlyAndSharesImagesOfSmallModels) {
  const model::VitConfig small = Small();  // 17 tokens
  for (const int64_t B : {1, 2, 7, 40, 64, 100}) {
    for (const int threads : {1, 2, 5}) {
      const StepPlan plan = PlanStep(small.tokens(), 20000, B, threads);
      EXPECT_GE(plan.chunk, 1);
      EXPECT_LE(plan.chunk, B);
      EXPECT_TRUE(plan.workers == 1 || plan.workers == threads);
      EXPECT_TRUE(threads > 1 || plan.workers == 1);
    }
  }
  EXPECT_EQ(PlanStep(small.tokens(), 20000, 64, 2).workers, 2);
  EXPECT_EQ(PlanStep(small.tokens(), 20000, 1, 2).workers, 1) << "one image cannot be shared out";
  const model::VitConfig of_patches;  // 224 x 224 in 16 x 16
  EXPECT_EQ(PlanStep(of_patches.tokens(), 5'700'000, 64, 2).workers, 2) << "ViT-Ti";
  EXPECT_EQ(PlanStep(of_patches.tokens(), 2'000'000, 512, 32).workers, 32);
  EXPECT_EQ(PlanStep(of_patches.tokens(), 5'700'000, 512, 32).workers, 1) << "its gradients 32 times are 730 MB";
  EXPECT_EQ(PlanStep(of_patches.tokens(), 22'000'000, 64, 2).workers, 1) << "ViT-S: its layers are large enough";
}

}  // namespace
}  // namespace qkv::train
