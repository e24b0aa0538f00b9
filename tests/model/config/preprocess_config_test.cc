// The libraries' configurations, and the tensors that timm and transformers (PIL backend) themselves make with them:
// equal to the last bit. tests/image/generate_golden.py wrote them.
#include "qkv/model/config/preprocess_config.h"

#include <gtest/gtest.h>

#include <cstring>

#include "qkv/io/safetensors.h"
#include "tests/support/files.h"

namespace qkv::model {
namespace {

using io::Json;

image::Preprocess FromTimm(const Json& json, ImageSize size = {}) {
  return PreprocessFromTimm(io::Fields(json, "pretrained_cfg"), size);
}

image::Preprocess FromHf(const Json& json, int channels, ImageSize size = {}) {
  return PreprocessFromHuggingFace(io::Fields(json, "preprocessor_config.json"), channels, size);
}

image::Preprocess FromCase(const Json& test) {
  ImageSize size;
  if (!test["size"].is_null()) size = {test["size"][0].get<int64_t>(), test["size"][1].get<int64_t>()};
  if (test["library"] == "timm") return FromTimm(test["config"], size);
  return FromHf(test["config"], test["channels"].get<int>(), size);
}

TEST(PreprocessConfig, TensorsEqualTheLibraries) {
  const auto golden = io::SafeTensors::Open(SourceFolder() / "tests/image/golden/preprocess.safetensors");
  const Json cases = io::ParseJson(golden.metadata().at("cases"), "cases");
  ASSERT_GE(cases.size(), 60u);
  for (size_t i = 0; i < cases.size(); ++i) {
    const Json& test = cases[i];
    SCOPED_TRACE(test.dump());
    const io::StoredTensor& stored = *golden.Find("image/" + test["image"].get<std::string>());
    image::Image image{Tensor<uint8_t>(stored.shape)};
    std::memcpy(image.pixels.data(), stored.bytes.data(), stored.bytes.size());
    const auto expected = io::Convert<float>(*golden.Find(fmt::format("out/{}", i)));
    const image::Preprocess preprocess = FromCase(test);
    const Shape shape = image::OutputShape(preprocess, image.height(), image.width());
    ASSERT_EQ(shape, expected.shape());
    Tensor<float> out(shape);
    image::Apply(preprocess, image, out);
    int64_t different = 0;
    for (int64_t j = 0; j < out.size(); ++j) different += out[j] != expected[j];
    EXPECT_EQ(different, 0);
  }
}

std::string TimmError(const std::string& config) {
  try {
    FromTimm(io::ParseJson(config, "test"));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::string HuggingFaceError(const std::string& config) {
  try {
    FromHf(io::ParseJson(config, "test"), 3);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(PreprocessConfig, TimmErrorsNameTheKey) {
  EXPECT_EQ(TimmError("{}"), "");
  EXPECT_NE(TimmError("[]").find("expected a JSON object"), std::string::npos);
  for (const char* key : {"input_size", "interpolation", "crop_pct", "crop_mode", "mean", "std"}) {
    EXPECT_NE(TimmError(fmt::format(R"({{"{}": {{}}}})", key)).find(key), std::string::npos) << key;
    EXPECT_NE(TimmError(fmt::format(R"({{"{}": ["x"]}})", key)).find(key), std::string::npos) << key;
  }
  for (const char* config :
       {R"({"input_size": [3, 0, 224]})", R"({"input_size": [3, 224]})", R"({"input_size": [1e300, 224, 224]})",
        R"({"input_size": [99, 224, 224]})", R"({"interpolation": "random"})", R"({"crop_pct": -1})",
        R"({"crop_mode": "middle"})", R"({"mean": []})", R"({"std": [0.5, 0, 0.5]})", R"({"mean": [1e999, 0, 0]})"}) {
    EXPECT_NE(TimmError(config), "") << config;
  }
}

TEST(PreprocessConfig, HuggingFaceErrorsNameTheKey) {
  EXPECT_EQ(HuggingFaceError("{}"), "");
  for (const char* key : {"do_resize", "size", "resample", "do_rescale", "rescale_factor", "do_normalize", "image_mean",
                          "image_std", "do_convert_rgb", "image_processor_type"}) {
    EXPECT_NE(HuggingFaceError(fmt::format(R"({{"{}": "x"}})", key)).find(key), std::string::npos) << key;
  }
  for (const char* config :
       {R"({"size": {"height": 224}})", R"({"size": {"longest_edge": 224}})", R"({"size": 0})", R"({"size": null})",
        R"({"size": {"shortest_edge": 224, "longest_edge": 300}})",
        R"({"size": {"height": 2, "width": 2, "depth": 2}})", R"({"resample": 6})", R"({"resample": null})",
        R"({"do_center_crop": true})", R"({"do_pad": true})",
        R"({"do_center_crop": true, "crop_size": {"shortest_edge": 2}})", R"({"image_mean": null})",
        R"({"image_std": [0, 0, 0]})", R"({"image_processor_type": "SamImageProcessor"})",
        R"({"image_processor_type": "ViTVideoProcessor"})"}) {
    EXPECT_NE(HuggingFaceError(config), "") << config;
  }
}

TEST(PreprocessConfig, ProcessorNamesOfAllGenerations) {
  for (const char* type : {"BitImageProcessor", "BitImageProcessorFast", "BitImageProcessorPil"}) {
    const auto p = FromHf({{"image_processor_type", type}}, 3);
    EXPECT_EQ(p.resize, image::Preprocess::Resize::kShortestEdge) << type;
    EXPECT_EQ(p.crop_height, 224) << type;
  }
  const auto p = FromHf({{"feature_extractor_type", "DeiTFeatureExtractor"}}, 3);
  EXPECT_EQ(p.resize_height, 256);
}

// A model changed to one channel often keeps the configuration of three.
// As facebook/dinov3-* hold it: null turns steps off, missing keys have the class's defaults.
TEST(PreprocessConfig, Dinov3SquashesToItsSize) {
  const image::Preprocess p = FromHf(
      {{"image_processor_type", "DINOv3ViTImageProcessorFast"}, {"do_center_crop", nullptr}, {"crop_size", nullptr}},
      3);
  EXPECT_EQ(p.resize, image::Preprocess::Resize::kExact);
  EXPECT_EQ(p.resize_height, 224);
  EXPECT_EQ(p.resize_width, 224);
  EXPECT_EQ(p.crop, image::Preprocess::Crop::kNone);
  EXPECT_EQ(p.filter, image::Filter::kBilinear);
  EXPECT_EQ(p.mean, (std::vector<float>{0.485f, 0.456f, 0.406f}));
  EXPECT_EQ(p.std, (std::vector<float>{0.229f, 0.224f, 0.225f}));
}

// As microsoft/beit-* and facebook/data2vec-vision-* hold it.
TEST(PreprocessConfig, BeitSquashesAndCropsOnlyIfAsked) {
  Json json = {{"feature_extractor_type", "BeitFeatureExtractor"},
               {"do_center_crop", false},
               {"crop_size", 224},
               {"resample", 2},
               {"size", 224},
               {"reduce_labels", false}};
  const image::Preprocess p = FromHf(json, 3);
  EXPECT_EQ(p.resize, image::Preprocess::Resize::kExact);
  EXPECT_EQ(p.resize_height, 224);
  EXPECT_EQ(p.crop, image::Preprocess::Crop::kNone);
  EXPECT_EQ(p.filter, image::Filter::kBilinear);
  EXPECT_EQ(p.mean, (std::vector<float>{0.5f, 0.5f, 0.5f}));
  json["do_center_crop"] = true, json["size"] = 256;
  const image::Preprocess crops = FromHf(json, 3);
  EXPECT_EQ(crops.resize_height, 256);
  EXPECT_EQ(crops.crop_width, 224);
  EXPECT_EQ(FromHf({{"image_processor_type", "BeitImageProcessor"}}, 3).filter, image::Filter::kBicubic);
}

TEST(PreprocessConfig, EqualMeansServeOneChannel) {
  const auto p = FromHf({{"image_mean", {0.5, 0.5, 0.5}}, {"image_std", {0.2, 0.2, 0.2}}}, 1);
  EXPECT_EQ(p.mean, std::vector{0.5f});
  EXPECT_EQ(p.std, std::vector{0.2f});
}

TEST(PreprocessConfig, AnotherSizeMustBeOne) {
  EXPECT_THROW(FromTimm(Json::object(), std::pair<int64_t, int64_t>{0, 5}), Error);
  EXPECT_THROW(FromHf(Json::object(), 3, std::pair<int64_t, int64_t>{5, -5}), Error);
}

}  // namespace
}  // namespace qkv::model
