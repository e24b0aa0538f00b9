// The trained models of QKV_REFERENCE, with biases: merged and split back, the class of every image of their test
// splits in QKV_DATA stays the same. Skipped, by name, where these folders are not given.
#include "tests/support/reference.h"

#include <gtest/gtest.h>

#include "qkv/core/parallel.h"
#include "qkv/lab/merge.h"
#include "qkv/lab/split.h"
#include "qkv/model/model.h"

namespace qkv::lab {
namespace {

namespace fs = std::filesystem;

class Reference : public ReferenceTest {
 protected:
  void SetUp() override {
    ReferenceTest::SetUp();
    if (IsSkipped()) return;
    Merge(model::Checkpoint::Open(folder_), rewritten_ / "merged", {});
    Split(model::Checkpoint::Open(rewritten_ / "merged"), 0, rewritten_ / "split", {});
  }

  TemporaryFolder rewritten_;
};
INSTANTIATE_TEST_SUITE_P(Models, Reference, ReferenceCases(), ReferenceTest::CaseName);

TEST_P(Reference, EveryClassOfTheTestSplitStaysTheSame) {
  const std::vector<fs::path> files = TestSplit();
  if (files.empty()) GTEST_SKIP() << "QKV_DATA has no " << GetParam().images;
  const model::Model original = model::Model::Load(folder_), merged = model::Model::Load(rewritten_ / "merged"),
                     split = model::Model::Load(rewritten_ / "split");
  constexpr int64_t kBatch = 50;
  const auto count = static_cast<int64_t>(files.size());
  const model::VitConfig& c = original.config();
  std::vector<int> changed(files.size());
  ParallelFor((count + kBatch - 1) / kBatch, 1, [&](int64_t begin, int64_t end) {
    model::Workspace<float> workspaces[3];
    for (int64_t batch = begin; batch < end; ++batch) {
      const int64_t first = batch * kBatch, last = std::min(count, first + kBatch);
      auto pixels = Tensor<float>::Uninitialised({last - first, c.channels, c.image_height, c.image_width});
      for (int64_t i = first; i < last; ++i) {
        const Tensor<float> one = original.Pixels(image::DecodeFile(files[static_cast<size_t>(i)]));
        std::ranges::copy(one.span(), pixels.view().at(i - first));
      }
      Tensor<float> logits[3];
      const model::Model* models[] = {&original, &merged, &split};
      for (int m = 0; m < 3; ++m) {
        logits[m] = Tensor<float>({last - first, c.outputs()});
        models[m]->Forward(pixels, workspaces[m], {.logits = logits[m]});
      }
      const auto best = [&](const Tensor<float>& all, int64_t i) {
        const float* row = all.view().row(i);
        return std::max_element(row, row + c.outputs()) - row;
      };
      for (int64_t i = 0; i < last - first; ++i) {
        changed[static_cast<size_t>(first + i)] =
            best(logits[0], i) != best(logits[1], i) || best(logits[0], i) != best(logits[2], i);
      }
    }
  });
  EXPECT_EQ(std::count(changed.begin(), changed.end(), 1), 0) << "of " << count;
}

}  // namespace
}  // namespace qkv::lab
