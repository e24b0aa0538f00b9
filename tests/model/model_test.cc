// Model's answers about images, one and several, decoded and in files: the numbers of Vit::Forward.
#include "qkv/model/model.h"

#include <gtest/gtest.h>

#include <limits>

#include "qkv/image/encode.h"
#include "qkv/model/families/describe.h"
#include "qkv/nn/pool.h"
#include "tests/support/checkpoints.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/support/goldens.h"

namespace qkv::model {
namespace {

namespace fs = std::filesystem;

Model Golden(const std::string& name) { return Model::Load(GoldenFolder(name)); }

// Ramps and noise, different for each seed.
image::Image Picture(int64_t height, int64_t width, uint64_t seed) {
  image::Image picture{Tensor<uint8_t>({height, width, 3})};
  const auto noise = Sampler(seed).Normal<float>({height, width, 3});
  for (int64_t i = 0; i < picture.pixels.size(); ++i) {
    const float value = 128 + 40 * noise[i] + static_cast<float>(i % (width * 3)) / static_cast<float>(width);
    picture.pixels[i] = static_cast<uint8_t>(std::clamp(value, 0.f, 255.f));
  }
  return picture;
}

// More than one pass holds, of different sizes.
constexpr int64_t kImages = 19;

std::vector<image::Image> Pictures() {
  std::vector<image::Image> pictures;
  for (int64_t i = 0; i < kImages; ++i) {
    pictures.push_back(Picture(20 + 3 * i, 50 - i, static_cast<uint64_t>(i)));
  }
  return pictures;
}

std::vector<fs::path> Save(const std::vector<image::Image>& pictures, const TemporaryFolder& folder) {
  std::vector<fs::path> files;
  for (size_t i = 0; i < pictures.size(); ++i) {
    files.push_back(folder / fmt::format("{}.png", i));
    image::WritePng(files.back(), pictures[i]);
  }
  return files;
}

void ExpectSame(const std::vector<Prediction>& got, const std::vector<Prediction>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].index, expected[i].index);
    EXPECT_EQ(got[i].label, expected[i].label);
    EXPECT_EQ(got[i].score, expected[i].score);
  }
}

void ExpectSame(View<const float> got, View<const float> expected) {
  ASSERT_EQ(got.shape(), expected.shape());
  for (int64_t i = 0; i < got.size(); ++i) ASSERT_EQ(got.data()[i], expected.data()[i]) << i;
}

class ModelOf : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Models, ModelOf,
                         testing::Values("timm_vit", "timm_reg4_cls", "timm_reg4_gap", "timm_distilled", "timm_map",
                                         "hf_vit", "hf_dinov2_registers", "hf_vit_model_pooler", "vit_pytorch_vit"));

TEST_P(ModelOf, ClassifiesSeveralImagesAsOneByOne) {
  const Model model = Golden(GetParam());
  if (model.config().classes == 0) GTEST_SKIP() << "no classifier";
  const std::vector<image::Image> pictures = Pictures();
  const TemporaryFolder folder;
  const std::vector<fs::path> files = Save(pictures, folder);
  const auto several = model.Classify(pictures, 3), of_files = model.Classify(files, 3);
  ASSERT_EQ(several.size(), pictures.size());
  ASSERT_EQ(of_files.size(), pictures.size());
  for (size_t i = 0; i < pictures.size(); ++i) {
    const Tensor<float> logits = model.Logits(model.Pixels(pictures[i]));
    const std::vector<Prediction> expected = model.Top(logits.span(), 3);
    ExpectSame(several[i], expected);
    ExpectSame(of_files[i], expected);
    ExpectSame(model.Classify(pictures[i], 3), expected);
    ExpectSame(model.Classify(files[i], 3), expected);
  }
}

TEST_P(ModelOf, EmbedsWhatThePassGives) {
  const Model model = Golden(GetParam());
  const VitConfig& c = model.config();
  const std::vector<image::Image> pictures = Pictures();
  const TemporaryFolder folder;
  const std::vector<fs::path> files = Save(pictures, folder);
  for (const Pooling pooling : {Pooling::kModel, Pooling::kClassToken, Pooling::kMean, Pooling::kClassTokenAndMean}) {
    const bool both = pooling == Pooling::kClassTokenAndMean;
    if ((pooling == Pooling::kClassToken || both) && !c.class_token) {
      const std::string message = ErrorMessage([&] { model.Embed(pictures[0], pooling); });
      EXPECT_NE(message.find("no class token; use"), std::string::npos) << message;
      continue;
    }
    const Tensor<float> several = model.Embed(pictures, pooling), of_files = model.Embed(files, pooling);
    ASSERT_EQ(several.shape(), Shape({kImages, model.EmbeddingWidth(pooling)}));
    ExpectSame(of_files, several);
    for (int64_t i = 0; i < kImages; ++i) {
      const image::Image& picture = pictures[static_cast<size_t>(i)];
      const Tensor<float> pixels = model.Pixels(picture);
      const int64_t N = model.TokensFor(pixels.dim(2), pixels.dim(3)), D = c.block.width;
      Tensor<float> pooled({1, c.pooled_width()}), tokens({1, N, D}), mean({1, D});
      Workspace<float> workspace;
      // One by one: a pass for both computes all tokens of the last block, and rounds differently.
      model.Forward(pixels, workspace, {.pooled = pooled});
      model.Forward(pixels, workspace, {.tokens = tokens});
      nn::MeanPool<float>(tokens.view(), c.prefix(), mean.view());
      Tensor<float> pair({2 * D});
      std::copy_n(mean.data(), D, std::copy_n(tokens.data(), D, pair.data()));
      const View<const float> expected = pooling == Pooling::kModel  ? pooled.view()[0]
                                         : pooling == Pooling::kMean ? mean.view()[0]
                                         : both                      ? pair.view()
                                                                     : tokens.view()[0][0];
      ExpectSame(several.view()[i], expected);
      if (i > 1) continue;
      ExpectSame(model.Embed(picture, pooling), expected);
      ExpectSame(model.Embed(files[static_cast<size_t>(i)], pooling), expected);
    }
  }
  EXPECT_NE(ErrorMessage([&] { model.Embed(pictures[0], Pooling::kTokens); }).find("one vector"), std::string::npos);
}

TEST_P(ModelOf, ShowsTheAttentionOfThePass) {
  using Query = AttentionOptions::Query;
  const Model model = Golden(GetParam());
  const VitConfig& c = model.config();
  const image::Image picture = Picture(40, 30, 5);
  const Tensor<float> pixels = model.Pixels(picture);
  const int64_t N = model.TokensFor(pixels.dim(2), pixels.dim(3)), H = c.block.attention.heads, prefix = c.prefix();
  const int64_t height = pixels.dim(2) / c.patch_height, width = pixels.dim(3) / c.patch_width;
  for (int64_t block = 0; block < c.depth; ++block) {
    Tensor<float> weights({1, H, N, N});
    Outputs<float> outputs;
    outputs.attention.push_back({block, {.row_begin = 0, .row_end = N, .out = weights}});
    Workspace<float> workspace;
    model.Forward(pixels, workspace, outputs);
    const auto expect = [&](const AttentionOptions& options, int64_t begin, int64_t end) {
      const Tensor<float> maps = model.Attention(picture, options);
      ASSERT_EQ(maps.shape(), Shape({H, height, width}));
      for (int64_t h = 0; h < H; ++h) {
        for (int64_t i = 0; i < height * width; ++i) {
          double sum = 0;
          for (int64_t row = begin; row < end; ++row) sum += *weights.view().at(0, h, row, prefix + i);
          const auto count = static_cast<double>(end - begin);
          // Each of the rows is divided and added in float: at most two roundings a row of a sum of at most `sum`.
          const double tolerance = (count > 1 ? 2 * count * std::numeric_limits<float>::epsilon() : 0) * sum / count;
          EXPECT_NEAR(maps.view().at(h)[i], sum / count, tolerance);
        }
      }
    };
    for (const int64_t named : {block, block - c.depth}) {
      expect({.block = named, .query = Query::kPatchMean}, prefix, N);
      expect({.block = named, .query = Query::kPatch, .row = height - 1, .column = 1}, N - width + 1, N - width + 2);
      expect({.block = named}, c.class_token ? 0 : prefix, c.class_token ? 1 : N);
      if (c.class_token) expect({.block = named, .query = Query::kClassToken}, 0, 1);
    }
  }
}

// Without a crop the preprocessing keeps the aspect ratio, so images have different numbers of tokens.
TEST(Model, ComputesImagesOfDifferentSizesOneByOne) {
  const TemporaryFolder folder;
  const fs::path golden = GoldenFolder("hf_dinov2");
  fs::copy_file(golden / "config.json", folder / "config.json");
  fs::copy_file(golden / "model.safetensors", folder / "model.safetensors");
  io::Json preprocessor = io::ParseJson(ReadFile(golden / "preprocessor_config.json"), "preprocessor_config.json");
  preprocessor["do_center_crop"] = false;
  WriteFile(folder / "preprocessor_config.json", preprocessor.dump());
  const Model model = Model::Load(folder.path());
  ASSERT_FALSE(model.FixedPixelsShape());
  std::vector<image::Image> pictures;
  for (const int64_t width : {30, 60, 45}) pictures.push_back(Picture(30, width, static_cast<uint64_t>(width)));
  const Tensor<float> vectors = model.Embed(pictures, Pooling::kMean);
  const auto answers = model.Classify(pictures, 2);
  for (size_t i = 0; i < pictures.size(); ++i) {
    ExpectSame(vectors.view()[static_cast<int64_t>(i)], model.Embed(pictures[i], Pooling::kMean));
    ExpectSame(answers[i], model.Top(model.Logits(model.Pixels(pictures[i])).span(), 2));
    EXPECT_EQ(model.Attention(pictures[i]).dim(2), model.Pixels(pictures[i]).dim(3) / model.config().patch_width);
  }
}

// Bright and dark ones, of 1 to 4 channels, by a model that inverts the bright and reads grey, and one that reads RGB.
TEST(Model, PreparesAnImageInItsOwnMemoryAsBeside) {
  const Model digits = Model::Load(SourceFolder() / "models/digits"), photos = Golden("timm_vit");
  for (const Model* model : {&digits, &photos}) {
    for (const int64_t channels : {1, 2, 3, 4}) {
      for (const int shade : {20, 235}) {
        const auto make = [&] {
          image::Image image{Tensor<uint8_t>({40, 30, channels})};
          for (int64_t i = 0; i < image.pixels.size(); ++i) {
            image.pixels[i] = static_cast<uint8_t>(shade + i * 7 % 20);
          }
          return image;
        };
        const image::Image beside = make();
        ExpectSame(model->Pixels(make()), model->Pixels(beside));
      }
    }
  }
}

TEST(Model, SaysWhatIsNotThere) {
  using Query = AttentionOptions::Query;
  const Model model = Golden("timm_reg4_gap");
  const image::Image picture = Picture(30, 30, 1);
  const auto attend = [&](const AttentionOptions& options) {
    return ErrorMessage([&] { model.Attention(picture, options); });
  };
  const std::string blocks = "attention: expected a block from 0 to 1, or from -2 to -1, got ";
  EXPECT_EQ(attend({.block = 2}), blocks + "2");
  EXPECT_EQ(attend({.block = -3}), blocks + "-3");
  EXPECT_EQ(attend({.query = Query::kClassToken}),
            "attention: the model has no class token; use Query::kPatch or kPatchMean");
  EXPECT_EQ(attend({.query = Query::kPatch, .row = 0, .column = -1}),
            "attention: expected a patch from 0,0 to 2,2, got 0,-1");
  EXPECT_EQ(attend({.query = Query::kPatch, .row = 3}), "attention: expected a patch from 0,0 to 2,2, got 3,0");

  EXPECT_EQ(model.Embed(std::vector<image::Image>()).shape(), Shape({0, model.EmbeddingWidth()}));
  const std::vector<fs::path> files = {SourceFolder() / "examples/digits/7-white.png", "no/such/photo.jpg"};
  for (const std::string& message :
       {ErrorMessage([&] { model.Embed(files); }), ErrorMessage([&] { model.Embed(files[1]); })}) {
    EXPECT_NE(message.find("no/such/photo.jpg: No such file"), std::string::npos) << message;
  }
  EXPECT_NE(ErrorMessage([&] { Golden("hf_dinov2_model").Classify(picture); }).find("no classifier"),
            std::string::npos);
}

// The answer is huge for some images only: the error names the first of these.
TEST(Model, NamesTheImageWhoseAnswerIsNotFinite) {
  const TemporaryFolder folder;
  const io::Json config = TinyConfig();
  TensorSet tensors(DescribeTimm(config).config);
  tensors.at("blocks.0.mlp.fc2.bias")[0] = 3e38f;
  tensors.Write(folder / "model.safetensors");
  WriteFile(folder / "config.json", config.dump());
  const Model model = Model::Load(folder.path());
  std::vector<image::Image> pictures;
  for (uint64_t i = 0; i < 3; ++i) pictures.push_back(Picture(8, 8, i));
  for (const std::string& message : {ErrorMessage([&] { model.Classify(pictures); }),
                                     ErrorMessage([&] { model.Embed(pictures, Pooling::kMean); })}) {
    EXPECT_NE(message.find(": image 1 of 3: the model's answer holds NaN or infinity"), std::string::npos) << message;
    EXPECT_NE(message.find("block 1 of 0 to 1"), std::string::npos) << message;
  }
  const std::vector<fs::path> files = Save(pictures, folder);
  const std::string message = ErrorMessage([&] { model.Classify(files); });
  EXPECT_EQ(message.find(files[0].native() + ": "), 0u) << message;
}

}  // namespace
}  // namespace qkv::model
