// Activations of passes: all that have a name are seen, the weights and hidden states are the originals', and changes
// take effect. In more detail: tests/python/test_run.py.
#include "qkv/app/capture/activations.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "qkv/app/capture/text_capture.h"
#include "qkv/app/models/any_model.h"
#include "qkv/core/memory.h"
#include "qkv/io/safetensors.h"
#include "tests/support/difference.h"
#include "tests/support/errors.h"
#include "tests/support/goldens.h"

namespace qkv::app {
namespace {

AnyModel OpenAsStored(const std::filesystem::path& folder) {
  ModelEntry entry;
  entry.path = folder.string(), entry.build = AsStored();
  return AnyModel(entry);
}

ActivationRequest KeepAll(const AnyModel& model) {
  const std::vector<std::string> names = ActivationNames(model.facts());
  return {.kept = {names.begin(), names.end()}};
}

Captured RunImages(const model::Model& model, const io::SafeTensors& golden, const ActivationRequest& activations) {
  const Tensor<float> pixels = ReadPixels(golden, "expected", model.config());
  const CaptureRequest request{.activations = activations};
  Captured captured = Allocate(model, request, pixels.dim(0), pixels.dim(2), pixels.dim(3));
  model::Workspace<float> workspace;
  CaptureBatch(model, pixels, request, 0, workspace, captured);
  return captured;
}

void ExpectAsOriginal(const io::SafeTensors& golden, const std::string& name, const Tensor<float>& ours) {
  const io::StoredTensor* const exact = golden.Find(name + ".float64");
  if (exact == nullptr) return;
  const auto wide = io::Convert<double>(*exact);
  const double own = MaxDifference(io::Convert<double>(*golden.Find(name)), wide);
  EXPECT_LE(MaxDifference(ours, wide), 4 * own + 2e-6 * std::max(1.0, MaxAbs(wide))) << name;
}

TEST(Activations, OfImagesAreTheOriginals) {
  for (const char* golden :
       {"timm_vit", "timm_parallel_scaled", "timm_output_norms", "timm_beit", "timm_rope_mixed", "timm_differential",
        "timm_kind_merged", "timm_kind_gaussian", "timm_kind_unified", "timm_swiglu_packed", "hf_yolos"}) {
    SCOPED_TRACE(golden);
    const auto file = io::SafeTensors::Open(GoldenFolder(golden) / "expected.safetensors");
    const AnyModel model = OpenAsStored(GoldenFolder(golden));
    const Captured run = RunImages(model.BuildImages(), file, KeepAll(model));
    for (const std::string& name : ActivationNames(model.facts())) EXPECT_TRUE(run.contains(name)) << name;
    ExpectAsOriginal(file, "logits", run.contains("logits") ? run.at("logits") : run.at("pooled"));
    for (int64_t block = 0; block < model.facts().config.depth; ++block) {
      ExpectAsOriginal(file, fmt::format("hidden.{}", block), run.at(fmt::format("blocks.{}.resid_pre", block)));
      ExpectAsOriginal(file, fmt::format("attention.{}", block), run.at(fmt::format("blocks.{}.attn.weights", block)));
    }
  }
}

TEST(Activations, OfTextsAreTheOriginals) {
  for (const char* golden : {"bert", "gpt2", "llama", "t5", "marian"}) {
    SCOPED_TRACE(golden);
    const auto file = io::SafeTensors::Open(TextGoldenFolder(golden) / "expected.safetensors");
    const AnyModel model = OpenAsStored(TextGoldenFolder(golden));
    const Captured run = CaptureText(model.BuildTexts(), file, "expected", {}, KeepAll(model));
    for (const std::string& name : ActivationNames(model.facts())) EXPECT_TRUE(run.contains(name)) << name;
    if (!model.facts().texts->encoder || !model.facts().texts->decoder) continue;
    ExpectAsOriginal(file, "logits", run.at("logits"));
    ExpectAsOriginal(file, "cross_attention.0", run.at("decoder.blocks.0.cross.weights"));
  }
}

TEST(Activations, AChangeIsWhatThePassGoesOnWith) {
  const auto file = io::SafeTensors::Open(GoldenFolder("timm_vit") / "expected.safetensors");
  const AnyModel model = OpenAsStored(GoldenFolder("timm_vit"));
  ActivationRequest request{.kept = {"blocks.0.attn.v", "blocks.0.attn.heads"}, .changed = {"blocks.0.attn.v"}};
  request.change = [](const std::string&, Tensor<float>* values) { std::ranges::fill(values->span(), 2.0f); };
  const Captured run = RunImages(model.BuildImages(), file, request);
  EXPECT_EQ(run.at("blocks.0.attn.v")[0], 2);
  for (const float sum : run.at("blocks.0.attn.heads").span()) ASSERT_NEAR(sum, 2, 1e-5);  // weights sum to 1
  EXPECT_FALSE(run.contains("blocks.1.attn.v"));
}

TEST(Activations, StayWithinTheMemoryLimit) {
  const auto file = io::SafeTensors::Open(GoldenFolder("timm_vit") / "expected.safetensors");
  const AnyModel files = OpenAsStored(GoldenFolder("timm_vit"));
  const model::Model model = files.BuildImages();
  int64_t bytes = 0;
  for (const auto& [name, tensor] : RunImages(model, file, KeepAll(files))) {
    bytes += tensor.size() * static_cast<int64_t>(sizeof(float));
  }
  const int64_t limit = MemoryLimit();
  SetMemoryLimit(bytes / 2);
  const std::string message = ErrorMessage([&] { RunImages(model, file, KeepAll(files)); });
  SetMemoryLimit(limit);
  EXPECT_NE(message.find("activations"), std::string::npos) << message;
}

}  // namespace
}  // namespace qkv::app
