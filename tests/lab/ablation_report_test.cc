// Names of data and arms are text in every document.
#include "qkv/lab/ablation_report.h"

#include <gtest/gtest.h>

#include "qkv/core/file.h"
#include "tests/support/files.h"

namespace qkv::lab {
namespace {

TEST(AblationReport, NamesAreTextInEveryDocument) {
  const std::string name = "<img src=x onerror=alert(1)>";
  AblationResults results{.title = "Kinds of attention on " + name,
                          .facts = {{name, name}},
                          .arms = {"separate"},
                          .unit = "images",
                          .planned = 2,
                          .runs = {{.data = name, .arm = "separate"}, {.data = "digits", .arm = "separate"}},
                          .speeds = {}};
  const TemporaryFolder folder;
  WriteAblationReport(results, folder.path());
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    const std::string ending = entry.path().extension().string();
    if (ending == ".csv" || ending == ".json") continue;
    const std::string text = ReadFile(entry.path());
    EXPECT_NE(text.find("&lt;img src=x"), std::string::npos) << entry.path();
    EXPECT_EQ(text.find("<img"), std::string::npos) << entry.path();
  }
}

}  // namespace
}  // namespace qkv::lab
