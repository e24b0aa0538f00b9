// Steps of images as configurations of timm and Hugging Face: what their readers make of what is written.
#include "qkv/model/config/preprocess_writer.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "qkv/model/families/preprocess_common.h"

namespace qkv::model {
namespace {

TEST(ShortestDecimal, FindsTheFewestDecimals) {
  // timm resizes to floor(224 / crop_pct).
  const auto edge = [](int64_t wanted) {
    return [wanted](double pct) { return pct > 0 && std::floor(224 / pct) == static_cast<double>(wanted); };
  };
  EXPECT_EQ(ShortestDecimal(224.0 / 248, edge(248)), 0.9);
  EXPECT_EQ(ShortestDecimal(224.0 / 256, edge(256)), 0.875);
  EXPECT_EQ(ShortestDecimal(1.0, edge(224)), 1.0);
  EXPECT_EQ(ShortestDecimalValue(0.485f), 0.485);
}

using image::Preprocess;

// What both libraries' readers make of the written configurations.
void ExpectSameSteps(const Preprocess& a, const Preprocess& b) {
  EXPECT_EQ(a.resize, b.resize);
  EXPECT_EQ(a.resize_height, b.resize_height);
  EXPECT_TRUE(a.resize == Preprocess::Resize::kShortestEdge || a.resize_width == b.resize_width);
  EXPECT_EQ(a.filter, b.filter);
  EXPECT_EQ(a.mean, b.mean);
  EXPECT_EQ(a.std, b.std);
  EXPECT_EQ(OutputShape(a, 300, 400), OutputShape(b, 300, 400));
}

TEST(PreprocessWriter, SquareCropsAndSquashesSurvive) {
  // {resize edge, crop edge}: 248 and 256 are timm's usual edges, 255 and 233 have no short crop_pct.
  for (const auto& [edge, crop] : {std::pair(248, 224), {256, 224}, {255, 224}, {233, 224}, {224, 224}, {26, 24}}) {
    for (const auto resize : {Preprocess::Resize::kShortestEdge, Preprocess::Resize::kExact}) {
      SCOPED_TRACE(fmt::format("{} to {}", edge, crop));
      Preprocess p;
      p.resize = resize;
      p.resize_height = p.resize_width = edge;
      p.filter = image::Filter::kLanczos;
      p.crop = Preprocess::Crop::kTorchvision;
      p.crop_height = p.crop_width = crop;
      p.mean = {0.485f, 0.456f, 0.406f};
      p.std = {0.229f, 0.224f, 0.225f};
      std::vector<std::string> notes;
      const io::Json timm = PreprocessToTimm(p, crop, crop, &notes);
      ExpectSameSteps(p, PreprocessFromTimm(io::Fields(timm, "pretrained_cfg")));
      EXPECT_TRUE(notes.empty());
      const io::Json hugging_face = PreprocessToHuggingFace(p, &notes);
      ExpectSameSteps(p, PreprocessFromHuggingFace(io::Fields(hugging_face, "preprocessor_config.json"), 3));
    }
  }
}

TEST(PreprocessWriter, SaysWhatALibraryCannot) {
  Preprocess p;
  p.resize = Preprocess::Resize::kCover;
  p.resize_height = 128;
  p.resize_width = 256;
  p.crop = Preprocess::Crop::kTorchvision;
  p.crop_height = 112;
  p.crop_width = 224;
  std::vector<std::string> notes;
  PreprocessToHuggingFace(p, &notes);
  ASSERT_FALSE(notes.empty());
  EXPECT_NE(notes[0].find("cannot resize until 128x256 is covered"), std::string::npos) << notes[0];
  notes.clear();
  p.resize = Preprocess::Resize::kNone;
  p.crop = Preprocess::Crop::kNone;
  EXPECT_EQ(PreprocessToTimm(p, 32, 48, &notes)["input_size"], io::Json({3, 32, 48}));
  ASSERT_FALSE(notes.empty());
  EXPECT_NE(notes[0].find("timm always resizes"), std::string::npos) << notes[0];
}

TEST(PreprocessWriter, FoldsTheRescalingIntoTimmsMean) {
  Preprocess p;  // pixels 0 to 255, as a processor without do_rescale leaves them
  p.resize = Preprocess::Resize::kExact;
  p.resize_height = p.resize_width = 8;
  p.rescale = 1;
  p.mean = {127.5f, 127.5f, 127.5f};
  p.std = {255, 255, 255};
  std::vector<std::string> notes;
  const io::Json cfg = PreprocessToTimm(p, 8, 8, &notes);
  EXPECT_EQ(cfg["mean"], io::Json({0.5, 0.5, 0.5}));
  EXPECT_EQ(cfg["std"], io::Json({1.0, 1.0, 1.0}));
}

}  // namespace
}  // namespace qkv::model
