// Patches beside a text: each as if it were the whole image.
#include "qkv/explore/words.h"

#include <gtest/gtest.h>

#include <cmath>

#include "qkv/explore/explorer.h"
#include "qkv/model/blocks/unit_rows.h"
#include "tests/support/difference.h"
#include "tests/support/goldens.h"
#include "tests/support/tolerance.h"

namespace qkv::explore {
namespace {

class WordsOf : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Models, WordsOf, testing::Values("clip", "siglip", "open_clip_simple", "open_clip_siglip"));

Packet Photo() {
  Tensor<uint8_t> pixels({40, 40, 3});
  for (int64_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(i * 37 % 251);
  return {io::Json::object(), {{"pixels", MakeArray(pixels)}}};
}

TEST_P(WordsOf, AnswersAreCosines) {
  Explorer explorer({.models = {{"towers", GoldenFolder(std::string("towers/") + GetParam()).string(), ""}}});
  EXPECT_EQ(explorer.Call("models", Packet()).json["models"][0]["kind"], "towers");
  Packet request = Photo();
  request.json["text"] = "a photo of a cat";
  const Packet answer = explorer.Call("words", request);
  const auto answers = answer.Find("answers")->As<float>();
  float low = 1, high = -1;
  for (const float cosine : answers) {
    EXPECT_LE(std::abs(cosine), 1 + 1e-5);
    low = std::min(low, cosine), high = std::max(high, cosine);
  }
  EXPECT_GT(high - low, 1e-4) << "patches differ";
  // Another text gives other answers; the score is that of the whole image.
  request.json["text"] = "blue";
  const Packet other = explorer.Call("words", request);
  EXPECT_NE(other.json["score"], answer.json["score"]);
}

// CLIP's image vector is its class token's: it takes the way that patches take here.
TEST(Words, LayersBehindThePoolAreTheModels) {
  for (const char* name : {"clip", "open_clip_simple"}) {
    const std::string folder = GoldenFolder(std::string("towers/") + name).string();
    const auto checkpoint = model::Checkpoint::Open(folder);
    const model::TwoTowerModel model(checkpoint);
    const Packet photo = Photo();
    image::Image image{Tensor<uint8_t>({40, 40, 3})};
    const auto bytes = photo.Find("pixels")->As<uint8_t>();
    std::copy(bytes.begin(), bytes.end(), image.pixels.data());
    const Tensor<float> pixels = model.image().Pixels(image), whole = model.ImageEmbeds(pixels);
    const model::VitConfig& c = model.image().config();
    ASSERT_EQ(c.pool, model::Pool::kToken);
    Tensor<float> tokens({1, model.image().TokensFor(pixels.dim(2), pixels.dim(3)), c.block.width});
    model::Workspace<float> workspace;
    model.image().Forward(pixels, workspace, {.tokens = tokens});
    const OpenModel open(checkpoint, pixels.dim(2), pixels.dim(3));
    Tensor<float> alone = ProjectAlone(open, tokens.view()[0].slice(0, 0, 1));
    EXPECT_LT(model::NormaliseRows(alone), 0);
    EXPECT_LE(MaxDifference(alone, whole), 64 * UnitRoundoff<float>()) << name;
  }
}

}  // namespace
}  // namespace qkv::explore
