// Texts about photos as transformers writes them (tests/golden/tasks), whatever else is in the batch.
#include "qkv/app/texts/caption.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "qkv/io/json.h"
#include "qkv/io/safetensors.h"
#include "qkv/model/checkpoint/kind.h"
#include "tests/support/difference.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/support/goldens.h"

namespace qkv::app {
namespace {

namespace fs = std::filesystem;

fs::path Task(const std::string& name) { return GoldenFolder("tasks") / name; }

class Captions : public testing::TestWithParam<std::string> {
 protected:
  Captions()
      : model_(model::CaptionModel::Load(Task(GetParam()))),
        captioner_(model_, Task(GetParam())),
        expected_(io::ReadJson(Task(GetParam()) / "expected.json")) {
    for (const auto& photo : expected_["photos"]) {
      images_.files.push_back(GoldenFolder("detector") / "photos" / photo.get<std::string>());
    }
  }

  std::vector<std::string> Write(const model::GenerationSettings& settings, int batch, int failed = 0) {
    std::vector<std::string> texts;
    CaptionOptions options{.settings = settings, .pipeline = {}};
    options.pipeline.batch = batch;
    options.pipeline.note = [&](const std::string& note) { notes_ += note + '\n'; };
    EXPECT_EQ(captioner_.Write(images_, options,
                               [&](std::span<const Caption> captions) {
                                 for (const Caption& one : captions) texts.push_back(one.text);
                               }),
              failed);
    return texts;
  }

  model::CaptionModel model_;
  Captioner captioner_;
  io::Json expected_;
  ImageList images_;
  std::string notes_;
};
INSTANTIATE_TEST_SUITE_P(Tasks, Captions, testing::Values("vit_gpt2", "trocr"),
                         [](const auto& name) { return name.param; });

TEST_P(Captions, AreThoseOfTransformers) {
  for (const char* how : {"greedy", "beam"}) {
    model::GenerationSettings settings = captioner_.Settings();
    EXPECT_EQ(settings.max_tokens, 10) << "max_length counts the first token";
    if (how == std::string("beam")) settings.beams = 3;
    const auto expected = expected_[how].get<std::vector<std::string>>();
    EXPECT_EQ(Write(settings, 0), expected) << how;
    EXPECT_EQ(Write(settings, 1), expected) << how << ", each alone";
    EXPECT_EQ(Write(settings, 2), expected) << how << ", two together";
  }
}

TEST_P(Captions, PixelsAreThoseOfTransformersProcessor) {
  const auto file = io::SafeTensors::Open(Task(GetParam()) / "expected.safetensors");
  const auto expected = io::Convert<float>(*file.Find("pixels"));
  for (size_t i = 0; i < images_.files.size(); ++i) {
    const Tensor<float> pixels = model_.image().Pixels(image::DecodeFile(images_.files[i]));
    const View<const float> row = expected.view()[static_cast<int64_t>(i)];
    for (int64_t j = 0; j < pixels.size(); ++j) ASSERT_NEAR(pixels[j], row.data()[j], 2e-7) << images_.files[i];
  }
}

TEST_P(Captions, DrawsDoNotDependOnTheBatch) {
  model::GenerationSettings settings = captioner_.Settings();
  settings.sampling = {.temperature = 2, .seed = 5};
  const std::vector<std::string> together = Write(settings, 0);
  EXPECT_EQ(Write(settings, 2), together);
  settings.sampling.seed = 6;
  EXPECT_NE(Write(settings, 2), together);
}

TEST_P(Captions, BrokenImagesAreLeftOut) {
  const TemporaryFolder folder;
  WriteFile(folder / "broken.jpg", "no image");
  images_.files.insert(images_.files.begin() + 1, folder / "broken.jpg");
  EXPECT_EQ(Write(captioner_.Settings(), 2, 1), expected_["greedy"].get<std::vector<std::string>>());
  EXPECT_NE(notes_.find("broken.jpg"), std::string::npos) << notes_;
}

TEST(Captioner, RefusesAnotherModelsTokenizer) {
  const auto model = model::CaptionModel::Load(GoldenFolder("caption") / "vit_gpt2");
  EXPECT_NE(ErrorMessage([&] { Captioner(model, Task("gpt2")); }).find("another model"), std::string::npos);
  EXPECT_NE(ErrorMessage([&] { Captioner(model, GoldenFolder("caption") / "vit_gpt2"); }).find("tokenizer"),
            std::string::npos);
}

TEST(Captioner, ModelsAreRecognised) {
  EXPECT_EQ(model::FindKind(Task("trocr")), model::ModelKind::kCaptions);
  EXPECT_EQ(model::FindKind(Task("marian")), model::ModelKind::kTexts);
  EXPECT_EQ(model::FindKind(GoldenFolder("hf_vit")), model::ModelKind::kImages);
}

}  // namespace
}  // namespace qkv::app
