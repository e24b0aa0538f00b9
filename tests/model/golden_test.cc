// Every golden of tests/golden: the original library's logits, tokens, hidden states and attention, in both precisions.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <vector>

#include "qkv/io/safetensors.h"
#include "qkv/model/checkpoint/checkpoint.h"
#include "qkv/model/vision/vit.h"
#include "tests/support/difference.h"
#include "tests/support/goldens.h"

namespace qkv::model {
namespace {

namespace fs = std::filesystem;

class Golden : public testing::TestWithParam<std::string> {
 protected:
  // All outputs of a forward pass in T, by their names in the reference.
  template <typename T>
  std::map<std::string, Tensor<T>> Run() {
    const fs::path folder = GoldenFolder(GetParam());
    const Checkpoint checkpoint = Checkpoint::Open(folder);
    const Vit<T> vit(checkpoint.description.config, checkpoint.bound);
    expected_ = io::SafeTensors::Open(folder / "expected.safetensors");
    const auto pixels = io::Convert<T>(*expected_.Find("pixels"));
    const VitConfig& c = vit.config();
    const int64_t B = pixels.dim(0), N = vit.TokensFor(pixels.dim(2), pixels.dim(3));
    std::map<std::string, Tensor<T>> results;
    const auto add = [&](const std::string& name, const Shape& shape) -> View<T> {
      return results.emplace(name, Tensor<T>(shape)).first->second;
    };
    Outputs<T> outputs{.tokens = add("tokens", {B, N, c.block.width}), .hidden = {}, .attention = {}};
    if (c.detection_classes > 0) {
      outputs.detection_logits = add("logits", {B, c.detection_tokens, c.detection_classes + 1});
      outputs.boxes = add("pred_boxes", {B, c.detection_tokens, 4});
    } else if (c.mask_classes > 0) {
      const int64_t height = c.mask_side(pixels.dim(2) / c.patch_height);
      const int64_t width = c.mask_side(pixels.dim(3) / c.patch_width);
      outputs.mask_classes = add("class_queries_logits", {B, c.query_tokens, c.mask_classes + 1});
      outputs.masks = add("masks_queries_logits", {B, c.query_tokens, height, width});
    } else {
      outputs.logits = add("logits", {B, c.outputs()});
    }
    for (int64_t i = 0; i <= c.depth; ++i) {
      outputs.hidden.push_back({i, add(fmt::format("hidden.{}", i), {B, N, c.block.width})});
    }
    for (int64_t i = 0; i < c.depth; ++i) {
      outputs.attention.push_back({i, {0, N, add(fmt::format("attention.{}", i), {B, c.block.attention.heads, N, N})}});
    }
    Workspace<T> workspace;
    vit.Forward(pixels, workspace, outputs);
    return results;
  }

  io::SafeTensors expected_;
};
INSTANTIATE_TEST_SUITE_P(Cases, Golden, testing::ValuesIn(GoldenNames()), [](const auto& name) { return name.param; });

// A rounding of the greatest entry. Attention weights are rounded as scores, whose spread is at least ln(1 / least
// weight) and of whose error softmax passes on p (1 - p), a quarter at most.
double Rounding(const std::string& name, const Tensor<double>& exact) {
  if (!name.starts_with("attention.")) return 1e-6 * MaxAbs(exact);
  double least = 1;
  for (const double p : exact.span()) {
    if (p > 0) least = std::min(least, p);
  }
  return 1e-6 * std::max(1.0, -std::log(least) / 4);
}

// The design's criterion: four times the original's own float error, and a rounding.
TEST_P(Golden, FloatAgreesAsFarAsTheOriginalsOwnFloatDoes) {
  for (const auto& [name, ours] : Run<float>()) {
    const auto single = io::Convert<double>(*expected_.Find(name));
    const auto exact = io::Convert<double>(*expected_.Find(name + ".float64"));
    EXPECT_LE(MaxDifference(ours, exact), 4 * MaxDifference(single, exact) + Rounding(name, exact)) << name;
  }
}

// In double the arithmetic is the original's but for the order of sums: some hundred roundings of 1.1e-16.
// SimpleViT's own positions are computed in float32 whatever the model's type: a few roundings of 6e-8, amplified.
TEST_P(Golden, DoubleAgreesToTheLastDigits) {
  const double tolerance = GetParam().find("simple") == std::string::npos ? 1e-13 : 1e-6;
  for (const auto& [name, ours] : Run<double>()) {
    const auto exact = io::Convert<double>(*expected_.Find(name + ".float64"));
    EXPECT_LE(MaxDifference(ours, exact), tolerance * std::max(1.0, MaxAbs(exact))) << name;
  }
}

}  // namespace
}  // namespace qkv::model
