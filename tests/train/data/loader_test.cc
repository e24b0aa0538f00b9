// Batches: the same whatever the threads, each image once an epoch, from any step on.
#include "qkv/train/data/loader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "tests/support/errors.h"
#include "tests/train/data.h"

namespace qkv::train {
namespace {

image::Preprocess Plain(int64_t height = 8, int64_t width = 8) {
  return {.resize = image::Preprocess::Resize::kExact,
          .resize_height = height,
          .resize_width = width,
          .crop = image::Preprocess::Crop::kTorchvision,
          .crop_height = height,
          .crop_width = width,
          .mean = {0.5f, 0.4f, 0.3f},
          .std = {0.2f, 0.3f, 0.4f}};
}

Augmentation Everything() {
  return {.crop = Augmentation::Crop::kPadded,
          .padding = 2,
          .flip = 0.5,
          .operations = 2,
          .jitter = 0.3,
          .hue = 0.1,
          .erase = 0.3,
          .mixup = 0.8,
          .cutmix = 1};
}

// A batch that outlives the loader's next one.
struct Copy {
  int64_t step, epoch, first_image;
  Shape shape;
  std::vector<float> pixels, targets;
  std::vector<int64_t> labels;

  explicit Copy(const LoadedBatch& batch)
      : step(batch.step),
        epoch(batch.epoch),
        first_image(batch.first_image),
        shape(batch.pixels.shape()),
        pixels(batch.pixels.data(), batch.pixels.data() + batch.pixels.size()),
        labels(batch.labels.begin(), batch.labels.end()) {
    EXPECT_EQ(shape[0], std::ssize(labels));
    if (!batch.targets.empty()) targets.assign(batch.targets.data(), batch.targets.data() + batch.targets.size());
  }
  bool operator==(const Copy&) const = default;
};

std::vector<Copy> Take(Loader& loader, int count) {
  std::vector<Copy> batches;
  for (int i = 0; i < count; ++i) {
    const LoadedBatch* batch = loader.Next();
    if (!batch) break;
    batches.emplace_back(*batch);
  }
  return batches;
}

TEST(Loader, APassWithoutAugmentationIsEveryImageInOrder) {
  const Split split = NoiseSplit(50, 7);
  const ImageStore store(split, {.prepare = Plain()});
  Loader loader(store, {.batch = 16, .preprocess = Plain(), .threads = 3});
  EXPECT_EQ(loader.steps_per_epoch(), 4);
  for (int pass = 0; pass < 2; ++pass) {
    const std::vector<Copy> batches = Take(loader, 100);
    ASSERT_EQ(batches.size(), 4u);
    EXPECT_EQ(batches[3].shape, (Shape{2, 3, 8, 8}));
    Tensor<float> expected({3, 8, 8});
    for (int64_t i = 0; i < 50; ++i) {
      const Copy& batch = batches[static_cast<size_t>(i / 16)];
      EXPECT_EQ(batch.labels[static_cast<size_t>(i % 16)], i % 7);
      image::Image image{Tensor<uint8_t>({8, 8, 3})};
      std::copy_n(split.pixels.view().row(i), image.pixels.size(), image.pixels.data());
      image::Apply(Plain(), image, expected);
      EXPECT_TRUE(std::equal(expected.data(), expected.data() + expected.size(),
                             batch.pixels.begin() + i % 16 * expected.size()));
    }
    EXPECT_EQ(loader.Next(), nullptr);
    loader.Seek(0);
  }
}

TEST(Loader, AnEpochHasEveryImageAtMostOnce) {
  Split split = NoiseSplit(50, 50);  // the label is the image
  const ImageStore store(split, {.prepare = Plain()});
  Loader loader(store, {.batch = 16, .preprocess = Plain(), .augmentation = Augmentation{}, .seed = 3});
  EXPECT_EQ(loader.steps_per_epoch(), 3);
  std::vector<std::vector<int64_t>> epochs(4);
  for (const Copy& batch : Take(loader, 12)) {
    EXPECT_EQ(batch.epoch, batch.step / 3);
    auto& epoch = epochs[static_cast<size_t>(batch.epoch)];
    epoch.insert(epoch.end(), batch.labels.begin(), batch.labels.end());
  }
  for (const auto& epoch : epochs) EXPECT_EQ(std::set(epoch.begin(), epoch.end()).size(), 48u);
  EXPECT_NE(epochs[0], epochs[1]);
  Loader other(store, {.batch = 16, .preprocess = Plain(), .augmentation = Augmentation{}, .seed = 4});
  EXPECT_NE(Take(other, 1)[0].labels, Take(loader, 1)[0].labels);
}

TEST(Loader, ThreadsAndAheadChangeNothing) {
  const Split split = NoiseSplit(70, 5);
  const ImageStore store(split, {.prepare = Plain()});
  std::vector<Copy> first;
  for (const auto& [threads, ahead] : {std::pair(1, 0), std::pair(1, 3), std::pair(4, 2), std::pair(7, 9)}) {
    Loader loader(store, {.batch = 40,
                          .preprocess = Plain(),
                          .augmentation = Everything(),
                          .seed = 8,
                          .classes = 5,
                          .threads = threads,
                          .ahead = ahead});
    const std::vector<Copy> batches = Take(loader, 7);
    if (first.empty()) first = batches;
    EXPECT_TRUE(batches == first) << threads << " threads, " << ahead << " ahead";
  }
}

TEST(Loader, StartsAtAnyStep) {
  const Split split = NoiseSplit(70, 5);
  const ImageStore store(split, {.prepare = Plain()});
  LoaderOptions options{
      .batch = 16, .preprocess = Plain(), .augmentation = Everything(), .seed = 8, .classes = 5, .threads = 2};
  Loader loader(store, options);
  const std::vector<Copy> all = Take(loader, 12);
  options.first_step = 7;
  Loader resumed(store, options);
  EXPECT_TRUE(Take(resumed, 5) == std::vector<Copy>(all.begin() + 7, all.end()));
  for (const int64_t step : {0, 11, 3}) {
    loader.Seek(step);
    EXPECT_TRUE(Take(loader, 1)[0] == all[static_cast<size_t>(step)]) << step;
  }
}

TEST(Loader, ShardsAreThePartsOfTheWholeBatch) {
  const Split split = NoiseSplit(70, 5);
  const ImageStore store(split, {.prepare = Plain()});
  LoaderOptions options{.batch = 24, .preprocess = Plain(), .augmentation = Everything(), .seed = 8, .classes = 5};
  Loader whole(store, options);
  options.shards = 3;
  std::vector<std::unique_ptr<Loader>> shards;
  for (int64_t shard = 0; shard < 3; ++shard) {
    options.shard = shard;
    shards.push_back(std::make_unique<Loader>(store, options));
  }
  for (int step = 0; step < 4; ++step) {
    const Copy batch = Take(whole, 1)[0];
    std::vector<float> pixels, targets;
    std::vector<int64_t> labels;
    for (auto& shard : shards) {
      const Copy part = Take(*shard, 1)[0];
      EXPECT_EQ(part.first_image, std::ssize(labels));
      pixels.insert(pixels.end(), part.pixels.begin(), part.pixels.end());
      targets.insert(targets.end(), part.targets.begin(), part.targets.end());
      labels.insert(labels.end(), part.labels.begin(), part.labels.end());
    }
    EXPECT_EQ(pixels, batch.pixels);
    EXPECT_EQ(targets, batch.targets);
    EXPECT_EQ(labels, batch.labels);
  }
}

TEST(Loader, TargetsAreSharesOfTheTwoClasses) {
  const Split split = NoiseSplit(64, 4);
  const ImageStore store(split, {.prepare = Plain()});
  Loader loader(store, {.batch = 32, .preprocess = Plain(), .augmentation = Augmentation{.mixup = 1}, .classes = 4});
  for (const Copy& batch : Take(loader, 10)) {
    for (size_t i = 0; i < batch.labels.size(); ++i) {
      const float* row = batch.targets.data() + i * 4;
      EXPECT_NEAR(row[0] + row[1] + row[2] + row[3], 1, 1e-6);
      const auto own = static_cast<size_t>(batch.labels[i]), other = static_cast<size_t>(batch.labels[i ^ 1]);
      for (size_t c = 0; c < 4; ++c) EXPECT_TRUE(c == own || c == other || row[c] == 0);
      if (own != other) {
        EXPECT_NEAR(row[own], batch.targets[(i ^ 1) * 4 + other], 1e-6);
      }
    }
  }
}

TEST(Loader, AFewImagesAreOneSmallBatch) {
  const Split split = NoiseSplit(5, 2);
  const ImageStore store(split, {.prepare = Plain()});
  Loader loader(store, {.batch = 16, .preprocess = Plain(), .augmentation = Everything(), .classes = 2});
  EXPECT_EQ(loader.steps_per_epoch(), 1);
  EXPECT_EQ(loader.batch(), 5);
  for (const Copy& batch : Take(loader, 20)) EXPECT_EQ(batch.shape[0], 5);
}

TEST(Loader, ResizedCropsComeFromWholeImages) {
  const TemporaryFolder folder;
  WriteImages(folder / "a", 9, 0, 30, 20);
  WriteImages(folder / "b", 9, 50, 13, 40);
  const Dataset dataset = OpenDataset(folder.path());
  const ImageStore store(dataset.splits[0], {}), unkept(dataset.splits[0], {.keep = false});
  const LoaderOptions options{.batch = 6,
                              .preprocess = Plain(10, 12),
                              .augmentation = Augmentation{.crop = Augmentation::Crop::kResized, .operations = 1},
                              .threads = 2};
  Loader loader(store, options), streaming(unkept, options);
  const std::vector<Copy> batches = Take(loader, 9);
  EXPECT_EQ(batches[0].shape, (Shape{6, 3, 10, 12}));
  EXPECT_TRUE(batches == Take(streaming, 9));
}

TEST(Loader, AFileThatVanishesIsAnError) {
  const TemporaryFolder folder;
  WriteImages(folder / "a", 40, 0, 8, 8);
  WriteImages(folder / "b", 40, 50, 8, 8);
  const Dataset dataset = OpenDataset(folder.path());
  const ImageStore store(dataset.splits[0], {.prepare = Plain(), .keep = false});
  std::filesystem::remove(folder / "b/005.png");
  for (const int threads : {1, 4}) {
    Loader loader(store, {.batch = 10, .preprocess = Plain(), .threads = threads, .ahead = 3});
    // Image 45 is in the fifth batch; the four before are whole.
    EXPECT_EQ(Take(loader, 4).size(), 4u);
    const std::string said = ErrorMessage([&] { loader.Next(); });
    EXPECT_NE(said.find("b/005.png"), std::string::npos) << said;
    EXPECT_NE(ErrorMessage([&] { loader.Next(); }), "");
  }
}

TEST(Loader, EndsAtOnceInTheMiddleOfItsWork) {
  const Split split = NoiseSplit(300, 2);
  const ImageStore store(split, {.prepare = Plain()});
  for (int i = 0; i < 50; ++i) {
    Loader loader(store, {.batch = 100,
                          .preprocess = Plain(),
                          .augmentation = Everything(),
                          .classes = 2,
                          .threads = 1 + i % 5,
                          .ahead = i % 4});
    if (i % 3 == 0) loader.Next();
    if (i % 7 == 0) loader.Seek(i);
  }
}

TEST(Loader, RefusesWhatDoesNotFit) {
  const Split split = NoiseSplit(30, 3);
  const ImageStore store(split, {.prepare = Plain()}), raw(split, {});
  const auto said = [](const ImageStore& images, const LoaderOptions& options) {
    return ErrorMessage([&] { Loader(images, options); });
  };
  const image::Preprocess any;
  EXPECT_NE(said(store, {.batch = 0, .preprocess = Plain()}), "");
  EXPECT_NE(said(store, {.batch = 7, .shards = 2, .preprocess = Plain()}), "");
  EXPECT_NE(said(store, {.preprocess = any}).find("differing sizes"), std::string::npos);
  EXPECT_NE(said(raw, {.preprocess = Plain()}).find("nothing resizes"), std::string::npos);
  EXPECT_NE(said(store, {.preprocess = Plain(), .augmentation = Everything()}).find("pairs are mixed"),
            std::string::npos);
  EXPECT_NE(said(store, {.batch = 6, .shards = 2, .preprocess = Plain(), .augmentation = Everything(), .classes = 3})
                .find("multiple of 4"),
            std::string::npos);
}

TEST(ShuffledIndex, IsAPermutationOfAnyLength) {
  for (const int64_t n : {1, 2, 3, 4, 5, 16, 17, 100, 1000, 4097}) {
    for (const uint64_t key : {uint64_t{0}, uint64_t{1}, ~uint64_t{0}}) {
      std::vector<bool> seen(static_cast<size_t>(n));
      for (int64_t i = 0; i < n; ++i) {
        const int64_t at = ShuffledIndex(key, n, i);
        ASSERT_TRUE(at >= 0 && at < n);
        ASSERT_FALSE(seen[static_cast<size_t>(at)]);
        seen[static_cast<size_t>(at)] = true;
      }
    }
  }
}

// Over many keys each of the places is as likely for the first, and for a pair of neighbours.
TEST(ShuffledIndex, RefusesAPlaceThatIsNone) {
  for (const int64_t place : {int64_t{-3}, int64_t{-1}, int64_t{10}, int64_t{1} << 40}) {
    EXPECT_THROW(ShuffledIndex(7, 10, place), Error) << place;
  }
}

TEST(ShuffledIndex, IsEven) {
  const int64_t n = 10;
  const int keys = 20000;
  std::map<std::pair<int64_t, int64_t>, int> pairs;
  for (uint64_t key = 0; key < keys; ++key) ++pairs[{ShuffledIndex(key * 7919, n, 3), ShuffledIndex(key * 7919, n, 4)}];
  EXPECT_EQ(pairs.size(), 90u);
  double chi_squared = 0;
  const double expected = keys / 90.0;
  for (const auto& [pair, count] : pairs) chi_squared += (count - expected) * (count - expected) / expected;
  EXPECT_LT(chi_squared, 89 + 5 * std::sqrt(2 * 89.0));
}

}  // namespace
}  // namespace qkv::train
