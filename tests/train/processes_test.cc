// What several processes do together is what one does: steps, images, evaluations.
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "qkv/train/data/image_store.h"
#include "qkv/train/network/initialise.h"
#include "qkv/train/optimizer/step.h"
#include "qkv/train/run/evaluation.h"
#include "qkv/train/run/run_folder.h"
#include "tests/support/errors.h"
#include "tests/train/data.h"
#include "tests/train/networks.h"
#include "tests/train/team.h"

namespace qkv::train {
namespace {

namespace fs = std::filesystem;

// In double, so that the order of sums is below what anything else would change.
constexpr double kTolerance = 1e-11;

struct Labelled {
  Tensor<double> pixels;
  std::vector<int64_t> labels;

  explicit Labelled(int64_t images) : pixels(Sampler(1).Normal<double>({images, 2, 8, 8})) {
    for (int64_t i = 0; i < images; ++i) labels.push_back(i % 3);
  }
  Batch<double> Part(int64_t begin, int64_t end) const {
    return {.inputs = pixels.view().slice(0, begin, end),
            .labels = std::span(labels).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)),
            .first = begin};
  }
};

struct Trained {
  Tensor<double> weights;
  std::vector<StepResult> results;
};

// Three steps of 24 images in two batches, of each of which this process has its part.
Trained Train(Communicator& processes, bool told) {
  const Labelled data(24);
  const Network<double> network(SmallConfig());
  // Its steps are the gradients themselves: AdamW's make much of those that are 0 but for rounding.
  Optimizer<double> optimizer(network.layout(), {.kind = OptimizerSettings::Kind::kSgd, .clip_norm = 1});
  Stepper<double> stepper(network, optimizer,
                          {.smoothing = 0.1,
                           .dropout = 0.2,
                           .attention_dropout = 0.2,
                           .drop_path = 0.3,
                           .seed = 9,
                           .processes = &processes});
  Trained trained;
  trained.weights = RandomWeights<double>(network.layout());
  const int64_t rank = processes.rank(), size = processes.size();
  for (int step = 0; step < 3; ++step) {
    for (int64_t batch = 0; batch < 2; ++batch) {
      const int64_t begin = 12 * batch + 12 * rank / size, end = 12 * batch + 12 * (rank + 1) / size;
      stepper.Add(trained.weights, data.Part(begin, end), told && batch == 1);
    }
    trained.results.push_back(stepper.Apply(0.01, trained.weights));
  }
  return trained;
}

TEST(Processes, TakeTheStepsOfOne) {
  Communicator alone;
  const Trained one = Train(alone, false);
  const int64_t parts = SmallConfig().depth + 2;  // embedding, blocks, answer
  for (const int size : {2, 3, 4}) {
    for (const bool told : {false, true}) {
      SCOPED_TRACE(fmt::format("{} processes, {}", size, told));
      Team team(size);
      std::mutex mutex;
      std::vector<Trained> all;
      team.Run([&](Communicator& processes) {
        Trained mine = Train(processes, told);
        const std::lock_guard lock(mutex);
        all.push_back(std::move(mine));
      });
      // In pieces, while the backward pass runs, where the last batch was named; else at once.
      EXPECT_EQ(team.started(), 3 * size * (told ? parts : 1));
      ASSERT_EQ(all.size(), static_cast<size_t>(size));
      for (const Trained& trained : all) {
        EXPECT_TRUE(std::ranges::equal(trained.weights.span(), all[0].weights.span())) << "they drift apart";
        double greatest = 0;
        for (int64_t i = 0; i < one.weights.size(); ++i) {
          greatest = std::max(greatest, std::abs(trained.weights[i] - one.weights[i]));
        }
        EXPECT_LE(greatest, kTolerance);
        for (size_t step = 0; step < one.results.size(); ++step) {
          EXPECT_EQ(trained.results[step].sum.rows, 24);
          EXPECT_EQ(trained.results[step].sum.correct, one.results[step].sum.correct);
          EXPECT_NEAR(trained.results[step].sum.loss, one.results[step].sum.loss, kTolerance);
          EXPECT_NEAR(trained.results[step].gradient_norm, one.results[step].gradient_norm, kTolerance);
        }
      }
    }
  }
}

// A range goes on its way when the last worker has finished it, with what all of them have.
TEST(Reduction, WaitsForAllWorkers) {
  Team team(1);
  team.Run([&](Communicator& processes) {
    Tensor<float> a({8}), b({8});
    for (int64_t i = 0; i < 8; ++i) a[i] = static_cast<float>(i), b[i] = 10;
    const std::vector<View<float>> buffers = {a, b};
    Reduction<float> reduction(processes);
    EXPECT_FALSE(reduction.begun());
    reduction.Begin(buffers, 2);
    reduction.Finished(0, 4, 8);
    EXPECT_EQ(team.started(), 0);
    reduction.Finished(0, 0, 4);
    EXPECT_EQ(team.started(), 0);
    reduction.Finished(1, 4, 8);
    EXPECT_EQ(team.started(), 1);
    EXPECT_EQ(a[3], 3);
    EXPECT_EQ(a[4], 14);
    EXPECT_NE(ErrorMessage([&] { reduction.Finished(1, 0, 3); }).find("another worker has [0, 4)"), std::string::npos);
    reduction.End();
    EXPECT_FALSE(reduction.begun());
  });
}

// Each reads a part of the files, and all have the same, in the same order.
TEST(Processes, ReadImagesTogether) {
  const TemporaryFolder folder;
  WriteImages(folder / "data/a", 90, 0, 12, 16);
  WriteImages(folder / "data/b", 37, 100, 9, 9);
  WriteFile(folder / "data/b/007.png", "no image");
  const Dataset dataset = OpenDataset(folder / "data");
  const Split& split = dataset.splits[0];
  for (const bool cached : {false, true}) {
    StoreOptions options;
    options.shorter_side = 8;
    const ImageStore one(split, options);
    if (cached) options.cache = folder / "cache";
    Team team(3);
    team.Run([&](Communicator& processes) {
      StoreOptions shared = options;
      shared.processes = &processes;
      for (int again = 0; again < 2; ++again) {
        const ImageStore store(split, shared);
        EXPECT_EQ(store.from_cache(), cached && again == 1);
        ASSERT_EQ(store.size(), one.size());
        EXPECT_EQ(store.unreadable().size(), 1u);
        EXPECT_TRUE(std::ranges::equal(store.unreadable(), one.unreadable()));
        image::Workspace workspace;
        image::Image a, b;
        for (int64_t i = 0; i < one.size(); ++i) {
          one.Get(i, workspace, a);
          store.Get(i, workspace, b);
          EXPECT_TRUE(a.pixels.shape() == b.pixels.shape() && std::ranges::equal(a.pixels.span(), b.pixels.span()));
          EXPECT_EQ(store.label(i), one.label(i));
        }
      }
    });
  }
}

TEST(Processes, RateTogether) {
  constexpr int64_t kImages = 50, kClasses = 4;
  const Tensor<float> logits = Sampler(3).Normal<float>({kImages, kClasses});
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < kImages; ++i) labels.push_back(i * 7 % kClasses);
  const auto rated = [&](int64_t begin, int64_t end) {
    Evaluation evaluation(kClasses);
    evaluation.Add(logits.view().slice(0, begin, end),
                   std::span(labels).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)));
    return evaluation;
  };
  const Evaluation one = rated(0, kImages);
  Team team(3);
  team.Run([&](Communicator& processes) {
    Evaluation part = rated(kImages * processes.rank() / 3, kImages * (processes.rank() + 1) / 3);
    part.Combine([&](std::span<double> values) { processes.Sum(values); });
    EXPECT_EQ(part.images(), kImages);
    EXPECT_EQ(part.top1(), one.top1());
    EXPECT_EQ(part.top5(), one.top5());
    EXPECT_NEAR(part.nll(), one.nll(), kTolerance);
    EXPECT_NEAR(part.calibration_error(), one.calibration_error(), kTolerance);
    for (int64_t truth = 0; truth < kClasses; ++truth) {
      for (int64_t guess = 0; guess < kClasses; ++guess) {
        EXPECT_EQ(part.confusion(truth, guess), one.confusion(truth, guess));
      }
    }
  });
}

TEST(RunFolder, AnotherProcessReadsIt) {
  const TemporaryFolder folder;
  RunFolder own(folder / "run", false);
  WriteFile(own.path() / RunFolder::kConfig, "");
  EXPECT_FALSE(RunFolder::Reader(own.path()).HasCheckpoint());
  const int64_t step = 7;
  Snapshot snapshot;
  snapshot.config = "{}";
  snapshot.training = {io::Stored("optimizer.step", View<const int64_t>(&step, {1}))};
  snapshot.progress = "here";
  own.Commit(snapshot);
  RunFolder reader = RunFolder::Reader(own.path());
  ASSERT_TRUE(reader.HasCheckpoint());
  EXPECT_EQ(reader.Load().progress, "here");
  EXPECT_NE(ErrorMessage([&] { reader.Commit(snapshot); }).find("another process's"), std::string::npos);
}

}  // namespace
}  // namespace qkv::train
