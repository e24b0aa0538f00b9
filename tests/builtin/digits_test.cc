#include "qkv/builtin/digits.h"

#include <gtest/gtest.h>

#include "qkv/builtin/digits_model.h"
#include "qkv/core/file.h"
#include "qkv/io/json.h"
#include "qkv/io/safetensors.h"
#include "tests/support/files.h"

namespace qkv {
namespace {

TEST(Digits, AreTheFilesOfTheRepository) {
  const auto folder = SourceFolder() / "models/digits";
  EXPECT_EQ(builtin::DigitsConfig(), ReadFile(folder / "config.json"));
  const auto weights = builtin::DigitsWeights();
  EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(weights.data()), weights.size()),
            ReadFile(folder / "model.safetensors"));
}

TEST(Digits, CanBeReadWhereTheyLie) {
  const auto weights = builtin::DigitsWeights();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(weights.data()) % 64, 0u);
  const auto file = io::SafeTensors::FromBytes(weights, "digits");
  EXPECT_EQ(file.Find("head.weight")->shape, Shape({10, 96}));
  EXPECT_EQ(io::ParseJson(builtin::DigitsConfig(), "digits")["num_classes"], 10);
}

TEST(Digits, ModelReadsTheExamples) {
  const model::Model model = builtin::DigitsModel();
  for (const std::string digit : {"0", "3", "7"}) {
    const auto best = model.Classify(SourceFolder() / "examples/digits" / (digit + "-white.png"), 1);
    ASSERT_EQ(best.size(), 1u);
    EXPECT_EQ(best[0].label, digit);
    EXPECT_GT(best[0].score, 0.5f);
  }
}

}  // namespace
}  // namespace qkv
