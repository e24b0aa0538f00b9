// Texts through the tokenizer and the text tower, against open_clip (tests/golden/open_clip_texts.py).
#include "qkv/app/texts/texts.h"

#include <gtest/gtest.h>

#include "qkv/io/json.h"
#include "tests/support/errors.h"
#include "tests/support/goldens.h"

namespace qkv::app {
namespace {

class OpenClipTexts : public testing::TestWithParam<const char*> {
 protected:
  const std::filesystem::path folder_ = GoldenFolder(std::string("towers/open_clip_") + GetParam());
  const io::Json expected_ = io::ReadJson(folder_ / "expected.json");
  const std::vector<std::string> texts_ = expected_["texts"].get<std::vector<std::string>>();
  const model::TwoTowerModel model_ = model::TwoTowerModel::Load(folder_, model::Towers::kText);
  const TextEncoder encoder_{model_, folder_};
};
INSTANTIATE_TEST_SUITE_P(Models, OpenClipTexts, testing::Values("simple", "siglip"),
                         [](const auto& name) { return std::string(name.param); });

TEST_P(OpenClipTexts, BecomeTheIdsOfTheOriginal) {
  for (size_t i = 0; i < texts_.size(); ++i) {
    EXPECT_EQ(encoder_.Encode({&texts_[i], 1}).ids, expected_["ids"][i].get<std::vector<int32_t>>()) << texts_[i];
  }
}

// Both encoders are not causal: a token sees the padding behind it.
TEST_P(OpenClipTexts, HaveTheVectorsOfTheOriginalWhateverIsBesideThem) {
  const Tensor<float> together = encoder_.Embed(texts_);
  for (size_t i = 0; i < texts_.size(); ++i) {
    const Tensor<float> alone = encoder_.Embed({&texts_[i], 1});
    for (int64_t d = 0; d < together.dim(1); ++d) {
      const auto wanted = expected_["text_embeds"][i][static_cast<size_t>(d)].get<double>();
      EXPECT_NEAR(together.view().at(static_cast<int64_t>(i))[d], wanted, 1e-5) << texts_[i];
      EXPECT_NEAR(alone[d], wanted, 1e-5) << texts_[i];
    }
  }
}

}  // namespace
}  // namespace qkv::app
