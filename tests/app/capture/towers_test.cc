// What `qkv run` gives for models with two towers, against the originals, and inputs that it refuses.
#include "qkv/app/capture/towers.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "qkv/io/safetensors.h"
#include "tests/support/difference.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/support/goldens.h"

namespace qkv::app {
namespace {

// The image encoder's outputs for the golden's pixels.
Captured RunPixels(const model::Checkpoint& checkpoint, const io::SafeTensors& file) {
  const model::Model model(checkpoint);
  const Tensor<float> pixels = ReadPixels(file, "expected", model.config());
  Captured captured = Allocate(model, {}, pixels.dim(0), pixels.dim(2), pixels.dim(3));
  model::Workspace<float> workspace;
  CaptureBatch(model, pixels, {}, 0, workspace, captured);
  return captured;
}

TEST(Towers, GiveWhatTheOriginalsForwardReturns) {
  for (const char* golden : {"hf_clip", "hf_clip_end", "hf_siglip", "hf_siglip_mask_resized", "open_clip_clip"}) {
    SCOPED_TRACE(golden);
    const model::Checkpoint checkpoint = model::Checkpoint::Open(GoldenFolder(golden));
    const auto file = io::SafeTensors::Open(GoldenFolder(golden) / "expected.safetensors");
    Captured captured = RunPixels(checkpoint, file);
    AddEmbeddings(checkpoint, {}, &file, "expected", &captured);
    for (const char* name : {"image_embeds", "text_embeds", "logits_per_image"}) {
      ASSERT_TRUE(captured.contains(name)) << name;
      const auto exact = io::Convert<double>(*file.Find(std::string(name) + ".float64"));
      const double own = MaxDifference(io::Convert<double>(*file.Find(name)), exact);
      EXPECT_LE(MaxDifference(captured.at(name), exact), 4 * own + 1e-6 * MaxAbs(exact)) << name;
    }
  }
}

TEST(Towers, TakeEitherInputAlone) {
  const model::Checkpoint checkpoint = model::Checkpoint::Open(GoldenFolder("hf_clip"));
  const auto file = io::SafeTensors::Open(GoldenFolder("hf_clip") / "expected.safetensors");
  Captured texts, images = RunPixels(checkpoint, file);
  AddEmbeddings(checkpoint, {}, &file, "expected", &texts);
  EXPECT_EQ(texts.size(), 1u);
  EXPECT_TRUE(texts.contains("text_embeds"));
  AddEmbeddings(checkpoint, {}, nullptr, "", &images);
  EXPECT_TRUE(images.contains("image_embeds"));
  EXPECT_FALSE(images.contains("text_embeds") || images.contains("logits_per_image"));
}

TEST(Towers, AddNothingToOtherModels) {
  const model::Checkpoint checkpoint = model::Checkpoint::Open(GoldenFolder("timm_vit"));
  const auto own = io::SafeTensors::Open(GoldenFolder("timm_vit") / "expected.safetensors");
  const auto texts = io::SafeTensors::Open(GoldenFolder("hf_clip") / "expected.safetensors");
  Captured captured;
  AddEmbeddings(checkpoint, {}, &own, "own", &captured);
  EXPECT_TRUE(captured.empty());
  const std::string message = ErrorMessage([&] { AddEmbeddings(checkpoint, {}, &texts, "texts", &captured); });
  EXPECT_NE(message.find("has no text encoder"), std::string::npos) << message;
}

io::StoredTensor Narrow(const std::string& name, const Tensor<int32_t>& values) {
  return {name, DType::kI32, values.shape(), std::as_bytes(values.span())};
}

TEST(Towers, RefuseOtherTypesAndShapes) {
  const TemporaryFolder folder;
  const auto refused = [&](const std::vector<io::StoredTensor>& tensors) {
    io::WriteSafeTensors(folder / "texts.safetensors", tensors, {});
    const auto file = io::SafeTensors::Open(folder / "texts.safetensors");
    return ErrorMessage([&] { ReadTextTensors(file, "texts"); });
  };
  const Tensor<float> floats({2, 3});
  const Tensor<int64_t> ids({2, 3}), flat({6});
  const Tensor<int32_t> short_ids({2, 3}), short_mask({2, 2});
  EXPECT_NE(refused({io::Stored<float>("input_ids", floats)}).find("expected I64 or I32"), std::string::npos);
  EXPECT_NE(refused({io::Stored<int64_t>("input_ids", flat)}).find("expected [texts, tokens]"), std::string::npos);
  EXPECT_NE(refused({io::Stored<int64_t>("ids", ids)}).find("no tensor \"input_ids\""), std::string::npos);
  EXPECT_NE(
      refused({io::Stored<int64_t>("input_ids", ids), Narrow("attention_mask", short_mask)}).find("as \"input_ids\""),
      std::string::npos);
  EXPECT_EQ(refused({Narrow("input_ids", short_ids), io::Stored<int64_t>("attention_mask", ids)}), "");
}

}  // namespace
}  // namespace qkv::app
