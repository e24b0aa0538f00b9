// The trained models of QKV_REFERENCE, and the test splits of their data sets in QKV_DATA.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <ostream>
#include <string>
#include <vector>

#include "tests/support/files.h"

namespace qkv {

struct ReferenceCase {
  const char* model;   // folder of QKV_REFERENCE
  const char* images;  // folder of QKV_DATA
};
inline void PrintTo(const ReferenceCase& reference, std::ostream* out) { *out << reference.model; }

inline auto ReferenceCases() {
  return testing::Values(ReferenceCase{"digits-vit", "mnist"}, ReferenceCase{"cifar10-vit", "cifar10"});
}

/// The images of a test split in QKV_DATA, by class, then by name; empty if there are none.
inline std::vector<std::filesystem::path> TestSplitFiles(const std::string& data) {
  const std::filesystem::path images = DataFolder() / data / "test";
  std::vector<std::filesystem::path> files;
  if (DataFolder().empty() || !std::filesystem::exists(images)) return files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(images)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  EXPECT_FALSE(files.empty()) << images << " has no files";
  std::sort(files.begin(), files.end());
  return files;
}

/// Skips the test if QKV_REFERENCE is not set.
class ReferenceTest : public testing::TestWithParam<ReferenceCase> {
 public:
  static std::string CaseName(const testing::TestParamInfo<ReferenceCase>& info) { return info.param.images; }

 protected:
  void SetUp() override {
    const char* folder = ::getenv("QKV_REFERENCE");
    if (!folder) GTEST_SKIP() << "QKV_REFERENCE is not set";
    folder_ = std::filesystem::path(folder) / GetParam().model;
  }

  /// The images of the test split, in the order of predictions.txt; empty if there are none.
  static std::vector<std::filesystem::path> TestSplit() { return TestSplitFiles(GetParam().images); }

  std::filesystem::path folder_;
};

}  // namespace qkv
