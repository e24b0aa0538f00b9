// A folder of images through a model: once each thread has computed its first batches, another image allocates nothing
// but what the libraries of the formats take from malloc.
#include "qkv/app/images/pipeline.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <vector>

#include "qkv/core/parallel.h"
#include "qkv/core/work.h"
#include "qkv/image/encode.h"
#include "tests/support/allocations.h"
#include "tests/support/files.h"
#include "tests/support/goldens.h"
#include "tests/support/threads.h"

namespace qkv::app {
namespace {

class PipelineAllocation : public testing::TestWithParam<const char*> {
 protected:
  // Two images of each of two sizes, again and again.
  ImageList Images(size_t count) {
    const char* const files[] = {"1-black.png", "2-white.png"};
    ImageList images;
    for (size_t i = 0; i < count; ++i) {
      images.files.push_back(i % 4 < 2 ? SourceFolder() / "examples/digits" / files[i % 2] : Larger());
    }
    return images;
  }
  std::filesystem::path Larger() {
    const std::filesystem::path file = folder_ / "larger.png";
    if (!std::filesystem::exists(file)) {
      image::Image image{Tensor<uint8_t>({90, 70, 3})};
      for (int64_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = static_cast<uint8_t>(7 * i);
      WriteFile(file, image::EncodePng(image));
    }
    return file;
  }

  const TemporaryFolder folder_;
  const RestoreThreads restore_;
};
INSTANTIATE_TEST_SUITE_P(Models, PipelineAllocation, testing::Values("timm_vit", "timm_grey"));

TEST_P(PipelineAllocation, OfOneThreadThereIsNoneOnceItHasBegun) {
  SetNumThreads(1);
  const model::Model model = model::Model::Load(GoldenFolder(GetParam()));
  for (const Wanted wanted : {Wanted::kLogits, Wanted::kPooled, Wanted::kTokens, Wanted::kPixels}) {
    const ImageList images = Images(400);
    const int64_t begin = g_allocations.load();
    int64_t middle = 0, end = 0;
    const int failed = ForEachBatch({}, images, model, wanted, [&](const Batch& batch) {
      if (batch.files.front() < images.files.size() / 2) middle = g_allocations.load();
      end = g_allocations.load();
    });
    EXPECT_EQ(failed, 0);
    EXPECT_GT(middle, begin) << "nothing is counted";
    EXPECT_EQ(end - middle, 0) << static_cast<int>(wanted);
  }
}

// When a thread gets its first images is not known, but ten times as many images allocate no more than that.
TEST_P(PipelineAllocation, OfManyThreadsItDoesNotGrowWithTheImages) {
  SetNumThreads(3);
  const model::Model model = model::Model::Load(GoldenFolder(GetParam()));
  const auto allocations = [&](size_t count) {
    const ImageList images = Images(count);
    const int64_t before = g_allocations.load();
    size_t used = 0;
    EXPECT_EQ(ForEachBatch({}, images, model, Wanted::kLogits, [&](const Batch& batch) { used += batch.files.size(); }),
              0);
    EXPECT_EQ(used, count);
    return g_allocations.load() - before;
  };
  constexpr size_t kFew = 200, kMany = 10 * kFew;
  EXPECT_LT(allocations(kMany) - allocations(kFew), static_cast<int64_t>(kMany - kFew) / 4);
}

// No file is called broken, none is computed twice, and the next run is whole.
TEST_P(PipelineAllocation, IsGivenUpAtAnyQuestion) {
  SetNumThreads(2);
  const model::Model model = model::Model::Load(GoldenFolder(GetParam()));
  const ImageList images = Images(40);
  const auto run = [&] {
    std::vector<std::string> notes;
    size_t used = 0;
    const PipelineOptions options{.note = [&](const std::string& note) { notes.push_back(note); }};
    const auto count = [&](const Batch& batch) { used += batch.files.size(); };
    try {
      EXPECT_EQ(ForEachBatch(options, images, model, Wanted::kLogits, count), 0);
      EXPECT_EQ(used, images.files.size());
    } catch (const Cancelled&) {
      EXPECT_LT(used, images.files.size());
      EXPECT_TRUE(notes.empty()) << notes.front();
      return false;
    }
    EXPECT_TRUE(notes.empty()) << notes.front();
    return true;
  };
  EXPECT_TRUE(run());
  for (const int last : {0, 1, 7}) {
    std::atomic<int> asked = 0;
    const CancelScope scope([&] { return asked++ >= last; });
    EXPECT_FALSE(run()) << last;
  }
  EXPECT_TRUE(run());
}

}  // namespace
}  // namespace qkv::app
