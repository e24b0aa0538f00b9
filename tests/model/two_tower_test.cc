// Models with two towers: embeddings and logits against the originals', masks, batches, one tower alone, hostile files.
#include "qkv/model/two_tower.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "qkv/core/file.h"
#include "qkv/io/json.h"
#include "qkv/io/safetensors.h"
#include "qkv/model/blocks/unit_rows.h"
#include "qkv/model/checkpoint/convert.h"
#include "qkv/model/layout/translation.h"
#include "tests/support/difference.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/support/goldens.h"
#include "tests/support/integers.h"
#include "tests/support/sampler.h"

namespace qkv::model {
namespace {

namespace fs = std::filesystem;

template <typename F>
void ExpectError(const F& f, std::string_view part) {
  const std::string message = ErrorMessage(f);
  EXPECT_NE(message.find(part), std::string::npos) << message;
}

template <typename T>
Tensor<T> Make(const Shape& shape, std::initializer_list<T> values) {
  Tensor<T> tensor(shape);
  std::ranges::copy(values, tensor.data());
  return tensor;
}

// By name first: every process of a test asks for this list, and headers take their time to read.
std::vector<std::string> TwoTowerNames() {
  std::vector<std::string> names = GoldenNames();
  std::erase_if(names, [](const std::string& name) {
    return (name.find("clip") == std::string::npos && name.find("siglip") == std::string::npos) ||
           io::SafeTensors::Open(GoldenFolder(name) / "expected.safetensors").Find("input_ids") == nullptr;
  });
  return names;
}

class TwoTowers : public testing::TestWithParam<std::string> {
 protected:
  TwoTowers()
      : folder_(GoldenFolder(GetParam())),
        expected_(io::SafeTensors::Open(folder_ / "expected.safetensors")),
        pixels_(io::Convert<float>(*expected_.Find("pixels"))),
        ids_(ReadIntegers(*expected_.Find("input_ids"))) {
    if (const io::StoredTensor* mask = expected_.Find("attention_mask")) mask_ = ReadIntegers(*mask);
  }

  // Within four times the original's own float error, and a rounding of the greatest entry.
  void ExpectClose(const Tensor<float>& ours, const std::string& name) {
    const auto single = io::Convert<double>(*expected_.Find(name));
    const auto exact = io::Convert<double>(*expected_.Find(name + ".float64"));
    ASSERT_EQ(ours.shape(), exact.shape()) << name;
    EXPECT_LE(MaxDifference(ours, exact), 4 * MaxDifference(single, exact) + 1e-6 * MaxAbs(exact)) << name;
  }

  fs::path folder_;
  io::SafeTensors expected_;
  Tensor<float> pixels_;
  Tensor<int64_t> ids_, mask_;
};
INSTANTIATE_TEST_SUITE_P(Cases, TwoTowers, testing::ValuesIn(TwoTowerNames()),
                         [](const auto& name) { return name.param; });

TEST_P(TwoTowers, AgreeWithTheOriginal) {
  const auto model = TwoTowerModel::Load(folder_);
  const Tensor<float> images = model.ImageEmbeds(pixels_), texts = model.TextEmbeds(ids_, mask_);
  ExpectClose(images, "image_embeds");
  ExpectClose(texts, "text_embeds");
  ExpectClose(model.LogitsPerImage(images, texts), "logits_per_image");
}

TEST_P(TwoTowers, OneTowerAloneGivesTheSame) {
  const auto both = TwoTowerModel::Load(folder_);
  const auto image = TwoTowerModel::Load(folder_, Towers::kImage), text = TwoTowerModel::Load(folder_, Towers::kText);
  EXPECT_EQ(MaxDifference(both.ImageEmbeds(pixels_), image.ImageEmbeds(pixels_)), 0);
  EXPECT_EQ(MaxDifference(both.TextEmbeds(ids_, mask_), text.TextEmbeds(ids_, mask_)), 0);
  ExpectError([&] { image.TextEmbeds(ids_, mask_); }, "images only");
  ExpectError([&] { text.ImageEmbeds(pixels_); }, "texts only");
}

TEST_P(TwoTowers, TextsDoNotDependOnEachOther) {
  const auto model = TwoTowerModel::Load(folder_, Towers::kText);
  const Tensor<float> together = model.TextEmbeds(ids_, mask_);
  for (int64_t b = 0; b < ids_.dim(0); ++b) {
    const View<const int64_t> ids = ids_.view().slice(0, b, b + 1);
    const View<const int64_t> mask = mask_.empty() ? View<const int64_t>() : mask_.view().slice(0, b, b + 1);
    const Tensor<float> alone = model.TextEmbeds(ids, mask);
    EXPECT_TRUE(std::equal(alone.data(), alone.data() + alone.size(), together.view().row(b))) << b;
  }
}

TEST_P(TwoTowers, ManyTextsAreComputedInSeveralPasses) {
  const auto model = TwoTowerModel::Load(folder_, Towers::kText);
  const Tensor<float> few = model.TextEmbeds(ids_);
  const int64_t B = ids_.dim(0), N = ids_.dim(1), times = 300;
  Tensor<int32_t> many({B * times, N});
  for (int64_t i = 0; i < many.size(); ++i) many[i] = static_cast<int32_t>(ids_[i % ids_.size()]);
  const Tensor<float> all = model.TextEmbeds(many);
  for (int64_t row = 0; row < all.dim(0); ++row) {
    EXPECT_TRUE(std::equal(all.view().row(row), all.view().row(row) + all.dim(1), few.view().row(row % B))) << row;
  }
}

TEST_P(TwoTowers, LowerPrecisionsPointTheSameWay) {
  for (const auto& [precision, least] : {std::pair(simd::Precision::kBfloat16, 0.98), {simd::Precision::kInt8, 0.95}}) {
    const auto model = TwoTowerModel::Load(folder_, Towers::kBoth, {.precision = precision});
    const auto compare = [&, least = least](const Tensor<float>& ours, const std::string& name) {
      const auto exact = io::Convert<double>(*expected_.Find(name + ".float64"));
      for (int64_t r = 0; r < exact.dim(0); ++r) {
        double cosine = 0;
        for (int64_t d = 0; d < exact.dim(1); ++d) cosine += ours.view().row(r)[d] * exact.view().row(r)[d];
        EXPECT_GE(cosine, least) << name << ' ' << r;
      }
    };
    compare(model.ImageEmbeds(pixels_), "image_embeds");
    compare(model.TextEmbeds(ids_, mask_), "text_embeds");
  }
}

TEST_P(TwoTowers, ProbabilitiesFollowTheMatching) {
  const auto model = TwoTowerModel::Load(folder_);
  const Tensor<float> logits = Make<float>({2, 3}, {1, 2, 3, -1, 0, 100}), p = model.Probabilities(logits);
  for (int64_t i = 0; i < 2; ++i) {
    for (int64_t t = 0; t < 3; ++t) {
      const float* row = logits.view().row(i);
      double expected = 1 / (1 + std::exp(-double{row[t]}));
      if (model.matching() == Matching::kSoftmax) {
        expected =
            std::exp(double{row[t]}) / (std::exp(double{row[0]}) + std::exp(double{row[1]}) + std::exp(double{row[2]}));
      }
      EXPECT_NEAR(p.view().row(i)[t], expected, 1e-6);
    }
  }
}

TEST_P(TwoTowers, RefuseIdsAndMasksThatDoNotFit) {
  const auto model = TwoTowerModel::Load(folder_, Towers::kText);
  Tensor<int64_t> ids({1, 3}), mask({1, 3});
  ExpectError([&] { model.TextEmbeds(ids, mask); }, "hides every token");
  mask[0] = 2;
  ExpectError([&] { model.TextEmbeds(ids, mask); }, "expected 0 or 1");
  ids[1] = model.vocabulary();
  ExpectError([&] { model.TextEmbeds(ids); }, "id 1 of text 0");
  ids[1] = -1;
  ExpectError([&] { model.TextEmbeds(ids); }, "id 1 of text 0");
  ExpectError([&] { model.TextEmbeds(Tensor<int64_t>({1, model.text_length() + 1})); }, "expected dense ids");
  ExpectError([&] { model.TextEmbeds(Tensor<int64_t>({2, 3}), Tensor<int64_t>({2, 2})); }, "the mask is");
}

TEST_P(TwoTowers, TheTextEncoderHasAnOwnForm) {
  const SequenceConfig config = Checkpoint::Open(folder_).description.text->config;
  EXPECT_EQ(ParseSequenceConfig(ToJson(config)), config);
}

TEST(TwoTower, RowsWithoutADirectionAreFound) {
  auto rows = Make<float>({3, 2}, {3, 4, 0, -2, 1, 0});
  EXPECT_EQ(NormaliseRows(rows), -1);
  EXPECT_EQ(MaxDifference(rows, Make<float>({3, 2}, {0.6f, 0.8f, 0, -1, 1, 0})), 0);
  auto strange = Make<float>({3, 1}, {1, 0, NAN});
  EXPECT_EQ(NormaliseRows(strange), 1);
}

// A causal text encoder does not read what follows the token that it reads.
TEST(TwoTower, PaddingAfterTheEndDoesNotMatterToClip) {
  const fs::path folder = GoldenFolder("hf_clip");
  const auto model = TwoTowerModel::Load(folder, Towers::kText);
  const auto brief = Make<int64_t>({1, 4}, {38, 5, 7, 39});
  const auto padded = Make<int64_t>({1, 9}, {38, 5, 7, 39, 39, 39, 1, 2, 3});
  EXPECT_EQ(MaxDifference(model.TextEmbeds(brief), model.TextEmbeds(padded)), 0);
}

TEST(TwoTower, AnImageEncoderAloneIsRefused) {
  ExpectError([&] { TwoTowerModel::Load(GoldenFolder("hf_clip_vision_projection")); }, "has no text encoder");
  ExpectError([&] { TwoTowerModel::Load(GoldenFolder("timm_clip")); }, "has no text encoder");
}

TEST(TwoTower, TheCacheHoldsTheImageTower) {
  const TemporaryFolder folder;
  for (const char* golden : {"hf_clip", "hf_siglip", "open_clip_siglip"}) {
    std::string notes;
    const Cache cache{folder / "cache", [&](const std::string& note) { notes += note; }, std::chrono::nanoseconds(0)};
    const auto built = TwoTowerModel::Load(GoldenFolder(golden), Towers::kBoth, {}, cache);
    const auto mapped = TwoTowerModel::Load(GoldenFolder(golden), Towers::kBoth, {}, cache);
    EXPECT_EQ(notes, "");
    EXPECT_TRUE(fs::exists(CacheFile(Checkpoint::Open(GoldenFolder(golden)), {}, cache.folder)));
    const VitConfig& c = built.image().config();
    const Tensor<float> pixels = Sampler(7).Normal<float>({2, c.channels, c.image_height, c.image_width});
    EXPECT_EQ(MaxDifference(built.ImageEmbeds(pixels), mapped.ImageEmbeds(pixels)), 0);
  }
}

TEST(TwoTower, ConversionKeepsBothTowers) {
  for (const char* golden : {"hf_clip", "hf_siglip", "open_clip_clip", "open_clip_siglip"}) {
    SCOPED_TRACE(golden);
    const TemporaryFolder folder;
    const Checkpoint original = Checkpoint::Open(GoldenFolder(golden));
    Convert(original, folder / "bf16", {.dtype = DType::kBF16});
    const Checkpoint narrow = Checkpoint::Open(folder / "bf16");
    EXPECT_EQ(narrow.description.text, original.description.text);
    EXPECT_TRUE(Differences(narrow.description.config, original.description.config).empty());
    const auto ids = Make<int64_t>({1, 4}, {38, 5, 7, 39});
    const Tensor<float> wide = TwoTowerModel(original, Towers::kText).TextEmbeds(ids);
    EXPECT_GE(RowCosine(TwoTowerModel(narrow, Towers::kText).TextEmbeds(ids), wide, 0), 0.99);
  }
}

// Every command that reads images takes the image tower as a model.
TEST(TwoTower, ImagesAreEmbeddedAsByAModel) {
  const auto towers = TwoTowerModel::Load(GoldenFolder("hf_clip"), Towers::kImage);
  const auto model = Model::Load(GoldenFolder("hf_clip"));
  image::Image photo{Tensor<uint8_t>({40, 50, 3})};
  for (int64_t i = 0; i < photo.pixels.size(); ++i) photo.pixels[i] = static_cast<uint8_t>(i * 7 % 251);
  const Tensor<float> vector = model.Embed(photo);
  ASSERT_EQ(vector.size(), towers.width());
  const Tensor<float> direction = towers.ImageEmbeds(towers.image().Pixels(photo));
  double length = 0, cosine = 0;
  for (const float x : vector.span()) length += double{x} * x;
  for (int64_t d = 0; d < vector.size(); ++d) cosine += double{vector[d]} * direction[d] / std::sqrt(length);
  EXPECT_NEAR(cosine, 1, 1e-6);
}

// Both towers are checked strictly, whichever is used.
TEST(TwoTower, AMissingTensorOfTheTextEncoderIsNamed) {
  const TemporaryFolder folder;
  const fs::path source = GoldenFolder("hf_clip");
  fs::copy(source / "config.json", folder / "config.json");
  const auto weights = io::SafeTensors::Open(source / "model.safetensors");
  std::vector<io::StoredTensor> kept = weights.tensors();
  std::erase_if(kept, [](const io::StoredTensor& tensor) { return tensor.name == "text_projection.weight"; });
  io::WriteSafeTensors(folder / "model.safetensors", kept, {});
  ExpectError([&] { Model::Load(folder.path()); }, "text_projection.weight");
}

TEST(TwoTower, ALengthOutOfProportionIsRefused) {
  const TemporaryFolder folder;
  const fs::path source = GoldenFolder("hf_clip");
  io::Json config = io::ReadJson(source / "config.json");
  constexpr int64_t kLength = 1 << 16;
  config["text_config"]["max_position_embeddings"] = kLength;
  WriteFile(folder / "config.json", config.dump());
  const auto weights = io::SafeTensors::Open(source / "model.safetensors");
  std::vector<io::StoredTensor> tensors = weights.tensors();
  const Tensor<float> places({kLength, 20});
  for (io::StoredTensor& tensor : tensors) {
    if (tensor.name == "text_model.embeddings.position_embedding.weight")
      tensor = io::Stored<float>(tensor.name, places);
  }
  io::WriteSafeTensors(folder / "model.safetensors", tensors, {});
  ExpectError([&] { TwoTowerModel::Load(folder.path()); }, "max_position_embeddings");
  EXPECT_NO_THROW(TwoTowerModel::Load(folder.path(), Towers::kImage));
}

}  // namespace
}  // namespace qkv::model
