// The models of models/: as small as was promised, and as accurate on the test splits of QKV_DATA.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "qkv/core/parallel.h"
#include "qkv/model/families/describe.h"
#include "qkv/model/layout/tensor_table.h"
#include "qkv/model/model.h"
#include "tests/support/files.h"
#include "tests/support/reference.h"

namespace qkv::model {
namespace {

namespace fs = std::filesystem;

struct ShippedModel {
  std::string name;    // folder of models/
  std::string images;  // folder of QKV_DATA
  double accuracy;     // the card's, less a few images that another instruction set may round away
  int64_t parameters;  // at most
};
void PrintTo(const ShippedModel& shipped, std::ostream* out) { *out << shipped.name; }

class Shipped : public testing::TestWithParam<ShippedModel> {
 protected:
  const fs::path folder_ = SourceFolder() / "models" / GetParam().name;
};
INSTANTIATE_TEST_SUITE_P(Models, Shipped,
                         testing::Values(ShippedModel{"digits", "mnist", 0.994, 500'000},
                                         ShippedModel{"cifar10", "cifar10", 0.823, 3'000'000}),
                         [](const auto& test) { return test.param.name; });

// Of images whose folders are named after their classes.
double AccuracyOn(const std::vector<fs::path>& files, const Model& model) {
  std::vector<int64_t> right(files.size());
  ParallelFor(static_cast<int64_t>(files.size()), 64, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      right[i] = model.Classify(image::DecodeFile(files[i]), 1).at(0).label == files[i].parent_path().filename();
    }
  });
  return static_cast<double>(std::count(right.begin(), right.end(), 1)) / static_cast<double>(files.size());
}

TEST_P(Shipped, AreSmall) {
  EXPECT_LE(fs::file_size(folder_ / "model.safetensors"), 6'000'000u);
  EXPECT_LE(Parameters(Model::Load(folder_).config()), GetParam().parameters);
}

TEST_P(Shipped, AreAsAccurateAsTheirCardsSayOnTheTestSplit) {
  const std::vector<fs::path> files = TestSplitFiles(GetParam().images);
  if (files.empty()) GTEST_SKIP() << "QKV_DATA has no " << GetParam().images;
  // int8 may lose 0.2 points: the cards say 0.07 at most, of one kernel.
  for (const auto& [precision, loss] : {std::pair(simd::Precision::kFloat32, 0.0), {simd::Precision::kInt8, 0.002}}) {
    const double accuracy = AccuracyOn(files, Model::Load(folder_, {.precision = precision}));
    EXPECT_GE(accuracy, GetParam().accuracy - loss) << simd::Describe(precision).kernel;
  }
}

}  // namespace
}  // namespace qkv::model
