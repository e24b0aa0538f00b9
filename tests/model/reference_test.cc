// The trained models of QKV_REFERENCE: their expected tensors, and every prediction of their whole test splits, whose
// images are in QKV_DATA. Skipped, by name, where these folders are not given.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "qkv/core/parallel.h"
#include "qkv/model/model.h"
#include "tests/support/files.h"

namespace qkv::model {
namespace {

namespace fs = std::filesystem;

// A model of QKV_REFERENCE, and the folder of QKV_DATA that it was trained on.
struct Case {
  const char* model;
  const char* images;
};
void PrintTo(const Case& reference, std::ostream* out) { *out << reference.model; }

class Reference : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    const char* folder = ::getenv("QKV_REFERENCE");
    if (!folder) GTEST_SKIP() << "QKV_REFERENCE is not set";
    folder_ = fs::path(folder) / GetParam().model;
  }
  fs::path folder_;
};
INSTANTIATE_TEST_SUITE_P(Models, Reference,
                         testing::Values(Case{"digits-vit", "mnist"}, Case{"cifar10-vit", "cifar10"}),
                         [](const auto& model) { return std::string(model.param.images); });

// PyTorch's float32 results are off by some 1e-6 themselves; `qkv verify` asks for 1e-4.
TEST_P(Reference, ExpectedTensorsAreReproduced) {
  const Model model = Model::Load(folder_);
  const auto expected = io::SafeTensors::Open(folder_ / "expected.safetensors");
  const Tensor<float> logits = model.Logits(io::Convert<float>(*expected.Find("pixels")));
  const Tensor<float> reference = io::Convert<float>(*expected.Find("logits"));
  ASSERT_EQ(logits.shape(), reference.shape());
  for (int64_t i = 0; i < logits.size(); ++i) EXPECT_NEAR(logits[i], reference[i], 1e-5);
}

TEST_P(Reference, EveryPredictionOfTheTestSplit) {
  const fs::path images = DataFolder() / GetParam().images / "test";
  if (DataFolder().empty() || !fs::exists(images)) GTEST_SKIP() << "QKV_DATA has no " << GetParam().images;
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(images)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::ifstream list(folder_ / "predictions.txt");
  const std::vector<std::string> expected{std::istream_iterator<std::string>(list), {}};
  ASSERT_EQ(files.size(), expected.size());

  const Model model = Model::Load(folder_);
  std::vector<int64_t> wrong(files.size());
  ParallelFor(static_cast<int64_t>(files.size()), 64, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      const Prediction best = model.Classify(image::DecodeFile(files[i]), 1).at(0);
      wrong[i] = best.label != expected[i] && std::to_string(best.index) != expected[i];
    }
  });
  EXPECT_EQ(std::count(wrong.begin(), wrong.end(), 1), 0);
}

}  // namespace
}  // namespace qkv::model
