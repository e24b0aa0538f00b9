// What a run begins with: new models of every kind that config.json can say, and trained ones of every family, whose
// tokens stay what they were, also at another size.
#include "qkv/train/run/initial_model.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "qkv/core/rng.h"
#include "qkv/model/layout/bound_tensor.h"
#include "qkv/model/layout/tensor_table.h"
#include "qkv/model/vision/vit.h"
#include "tests/support/difference.h"
#include "tests/support/errors.h"
#include "tests/support/goldens.h"

namespace qkv::train {
namespace {

using model::Checkpoint;

const std::vector<std::string> kClasses = {"ant", "bee", "cat"};

TEST(NewModel, IsWhatWasAskedFor) {
  const auto start = [](Settings given) {
    given.insert({{"preset", "vit-digits"}, {"width", "48"}, {"heads", "4"}, {"depth", "2"}});
    return NewModel(Resolve(given), kClasses);
  };
  for (const char* kind : {"separate", "shared", "unified", "shared_kv", "merged", "gaussian", "positional"}) {
    const InitialModel plain = start({{"attention", kind}});
    EXPECT_EQ(model::Name(plain.description.config.block.attention.kind), kind);
    EXPECT_EQ(plain.description.labels, kClasses);
    EXPECT_EQ(plain.description.preprocess.channels, 1);
  }
  for (const char* kind : {"low_rank", "symmetric"}) {
    EXPECT_EQ(start({{"attention", kind}, {"rank", "5"}}).description.config.block.attention.qk_width, 5);
  }
  const model::VitConfig c = start({{"mlp", "swiglu"},
                                    {"pool", "avg"},
                                    {"class-token", "no"},
                                    {"registers", "3"},
                                    {"qk-norm", "yes"},
                                    {"qkv-bias", "no"},
                                    {"layer-scale", "1e-4"}})
                                 .description.config;
  EXPECT_EQ(c.block.mlp.gate, simd::Gate::kFirst);
  EXPECT_EQ(c.block.mlp.width, 128);
  EXPECT_EQ(c.pool, model::Pool::kMean);
  EXPECT_TRUE(c.fc_norm && !c.final_norm && c.block.attention.qk_norm && !c.block.attention.bias &&
              c.block.layer_scale && !c.class_token);
  EXPECT_EQ(c.registers, 3);
  EXPECT_EQ(start({{"pool", "map"}}).description.config.map_mlp_width, 192);
}

// Tokens of the checkpoint's model, and of the one that continues from it.
std::pair<Tensor<double>, Tensor<double>> ComputeTokens(const Checkpoint& checkpoint, const Settings& given) {
  const TrainConfig config = Resolve(given);
  const InitialModel start = ContinuedModel(checkpoint, config, kClasses);
  const model::VitConfig& c = start.description.config;
  const ParameterLayout layout(c);
  Tensor<float> weights({layout.size()});
  CopyWeights(checkpoint, c, layout, kClasses, weights);
  EXPECT_EQ(start.description.labels, kClasses);

  std::vector<io::StoredTensor> stored;
  for (const Slot& slot : layout.slots()) {
    stored.push_back(io::Stored<float>(slot.name, layout.At(slot.name, View<const float>(weights))));
  }
  std::vector<model::BoundTensor> bound;
  const std::vector<model::TensorSpec> table = model::TensorTable(c);
  for (size_t i = 0; i < table.size(); ++i) bound.push_back({table[i], {&stored[i]}});

  Tensor<double> pixels({1, c.channels, c.image_height, c.image_width});
  Rng rng(7);
  for (double& x : pixels.span()) x = rng.Normal();
  const auto tokens = [&](const model::Vit<double>& vit) {
    Tensor<double> out({1, vit.TokensFor(c.image_height, c.image_width), c.block.width});
    model::Workspace<double> workspace;
    model::Outputs<double> outputs;
    outputs.tokens = out;
    vit.Forward(pixels, workspace, outputs);
    return out;
  };
  return {tokens(model::Vit<double>(checkpoint.description.config, checkpoint.bound)),
          tokens(model::Vit<double>(c, bound))};
}

TEST(ContinuedModel, BiasesByRelativePositionAreNotTrained) {
  const Checkpoint checkpoint = Checkpoint::Open(GoldenFolder("hf_beit"));
  const std::string message = ErrorMessage([&] { ContinuedModel(checkpoint, Resolve({{"model", "m"}}), {"a", "b"}); });
  EXPECT_NE(message.find("biases of scores by relative position"), std::string::npos) << message;
}

// Rows of the classifier follow the names of the classes, and new classes keep their initial rows.
TEST(ContinuedModel, KeepsTheClassifiersRowsOfTheSameClasses) {
  Checkpoint checkpoint = Checkpoint::Open(GoldenFolder("timm_vit"));
  std::vector<std::string>& labels = checkpoint.description.labels;
  labels.clear();
  for (int64_t i = 0; i < checkpoint.description.config.classes; ++i) labels.push_back(fmt::format("class {}", i));
  const std::vector<std::string> classes = {labels[2], "another", labels[0]};
  const InitialModel start = ContinuedModel(checkpoint, Resolve({{"model", "m"}}), classes);
  ASSERT_FALSE(start.notes.empty());
  EXPECT_NE(start.notes.back().find("2 of these 3 classes"), std::string::npos) << start.notes.back();
  const ParameterLayout layout(start.description.config);
  Tensor<float> weights({layout.size()});
  std::ranges::fill(weights.span(), 7.f);
  CopyWeights(checkpoint, start.description.config, layout, classes, weights);
  const View<float> head = layout.At("head.weight", weights.view()), bias = layout.At("head.bias", weights.view());
  const auto old_head = model::ReadTensor<float>(checkpoint, "head.weight");
  const auto old_bias = model::ReadTensor<float>(checkpoint, "head.bias");
  for (int64_t d = 0; d < head.dim(1); ++d) {
    EXPECT_EQ(head.at(0)[d], old_head.view().at(2)[d]);
    EXPECT_EQ(head.at(1)[d], 7);
    EXPECT_EQ(head.at(2)[d], old_head.view().at(0)[d]);
  }
  EXPECT_EQ(bias.data()[0], old_bias[2]);
  EXPECT_EQ(bias.data()[1], 7);
  EXPECT_EQ(bias.data()[2], old_bias[0]);
}

// Both compute in double; the resized positions were rounded to float once.
constexpr double kRounding = 1e-5;

TEST(ContinuedModel, HasTheTokensOfTheOriginal) {
  for (const char* name : {"timm_vit",
                           "timm_distilled",
                           "timm_reg4_cls",
                           "timm_reg4_gap",
                           "timm_reg4_noembed",
                           "timm_map",
                           "timm_layerscale",
                           "timm_swiglu_packed",
                           "timm_kind_shared",
                           "timm_kind_low_rank",
                           "timm_kind_positional",
                           "hf_vit_labels",
                           "hf_deit_model",
                           "hf_deit_teacher",
                           "hf_dinov2",
                           "hf_dinov2_registers",
                           "hf_vit_model_pooler",
                           "vit_pytorch_vit",
                           "vit_pytorch_old",
                           "vit_pytorch_simple"}) {
    SCOPED_TRACE(name);
    const auto [before, after] = ComputeTokens(Checkpoint::Open(GoldenFolder(name)), {{"model", name}});
    EXPECT_LE(MaxDifference(before, after), kRounding * MaxAbs(before));
  }
}

TEST(ContinuedModel, HasThemAtAnotherSizeToo) {
  for (const char* name :
       {"timm_vit", "timm_reg4_noembed", "timm_kind_positional", "hf_vit_labels", "hf_dinov2_registers"}) {
    SCOPED_TRACE(name);
    const Checkpoint checkpoint = Checkpoint::Open(GoldenFolder(name));
    const model::VitConfig& c = checkpoint.description.config;
    const std::string size = fmt::format("{}x{}", c.image_height + 2 * c.patch_height, c.image_width - c.patch_width);
    const auto [before, after] = ComputeTokens(checkpoint, {{"model", name}, {"image-size", size}});
    EXPECT_LE(MaxDifference(before, after), kRounding * MaxAbs(before));
  }
}

TEST(ContinuedModel, SaysWhatStandsInTheWay) {
  Checkpoint checkpoint = Checkpoint::Open(GoldenFolder("timm_vit"));
  checkpoint.description.config.block.attention.projection_bias = false;
  const std::string biases = ErrorMessage([&] { ContinuedModel(checkpoint, Resolve({{"model", "x"}}), kClasses); });
  EXPECT_NE(biases.find("one switch for the biases"), std::string::npos) << biases;
  const Checkpoint fixed = Checkpoint::Open(GoldenFolder("vit_pytorch_vit"));
  const std::string size = ErrorMessage([&] { ComputeTokens(fixed, {{"model", "x"}, {"image-size", "32"}}); });
  EXPECT_NE(size.find("does not interpolate"), std::string::npos) << size;
}

TEST(CopyWeights, RefusesTensorsOfAnotherModel) {
  const Checkpoint checkpoint = Checkpoint::Open(GoldenFolder("timm_vit"));
  model::VitConfig wider = checkpoint.description.config;
  wider.block.mlp.width *= 2;
  const ParameterLayout layout(wider);
  Tensor<float> weights({layout.size()});
  EXPECT_NE(ErrorMessage([&] { CopyWeights(checkpoint, wider, layout, kClasses, weights); }).find("mlp.fc1"),
            std::string::npos);
}

}  // namespace
}  // namespace qkv::train
