// Ablations without training: what an arm is, and what equal budgets are.
#include "qkv/lab/ablation.h"

#include <gtest/gtest.h>

#include "qkv/core/error.h"
#include "qkv/model/layout/cost.h"
#include "qkv/model/layout/tensor_table.h"
#include "qkv/train/run/initial_model.h"

namespace qkv::lab {
namespace {

const std::vector<std::string> kClasses = {"a", "b", "c"};
const train::Settings kShared = {{"image-size", "32"}, {"patch-size", "8"}, {"width", "96"}, {"depth", "3"},
                                 {"heads", "3"},       {"batch", "50"},     {"epochs", "4"}, {"warmup-epochs", "0"}};

model::VitConfig MakeModelConfig(const train::TrainConfig& config) {
  return train::NewModel(config, kClasses).description.config;
}

// A thousand images.
const AblationData& Photos() {
  static const AblationData data = [] {
    AblationData photos;
    photos.name = "photos";
    photos.images.emplace().classes = kClasses;
    photos.images->train.labels.resize(1000);
    return photos;
  }();
  return data;
}

Arm Parse(std::string_view text) { return ParseArm(text, kShared); }

TEST(Arm, IsAKindAndKeys) {
  const Arm plain = Parse("shared"), more = Parse("separate:qkv-bias=false:init=mimetic");
  EXPECT_EQ(plain.settings, (train::Settings{{"attention", "shared"}}));
  EXPECT_EQ(more.name, "separate:qkv-bias=false:init=mimetic");
  EXPECT_EQ(more.settings, (train::Settings{{"attention", "separate"}, {"init", "mimetic"}, {"qkv-bias", "false"}}));
  for (const char* wrong :
       {"", "shard", "separate:bias=false", "low_rank:rank=x", "low_rank:rank", "separate:seed=1", "separate:model=vit",
        "separate:val-fraction=0.2", "separate:attention=shared", "separate:length=8", "separate:vocabulary=8"}) {
    EXPECT_THROW(Parse(wrong), Error) << wrong;
  }
}

TEST(Arm, MayBeOfCrossAttention) {
  train::Settings shared = {{"preset", "seq-pairs"}, {"width", "64"}, {"heads", "4"}};
  const auto settings = [&](std::string_view text, Varied varied) { return ParseArm(text, shared, varied).settings; };
  EXPECT_EQ(settings("shared", Varied::kCross), (train::Settings{{"cross-attention", "shared"}}));
  EXPECT_EQ(settings("shared", Varied::kLayers), (train::Settings{{"attention", "shared"}}));
  EXPECT_EQ(settings("low_rank", Varied::kBoth),
            (train::Settings{{"attention", "low_rank"}, {"cross-attention", "low_rank"}, {"rank", "8"}}));
  EXPECT_EQ(settings("symmetric", Varied::kCross), (train::Settings{{"cross-attention", "symmetric"}, {"rank", "16"}}));
  for (const char* wrong : {"gaussian", "shared:tokenizer=x", "shared:valid=y", "shared:cross-attention=merged"}) {
    EXPECT_THROW(ParseArm(wrong, shared, Varied::kCross), Error) << wrong;
  }
}

TEST(Arm, ARankThatIsNeededIsSaid) {
  EXPECT_EQ(Parse("low_rank").name, "low_rank:rank=16");  // heads are 96 / 3 wide
  EXPECT_EQ(Parse("symmetric").name, "symmetric:rank=32");
  EXPECT_EQ(Parse("low_rank:heads=6").name, "low_rank:heads=6:rank=8");
  EXPECT_EQ(Parse("low_rank:rank=5").name, "low_rank:rank=5");
  EXPECT_EQ(Parse("low_rank").settings.at("rank"), "16");
  EXPECT_FALSE(Parse("positional").settings.contains("rank"));
}

TEST(Budget, OfStepsChangesNothingButTheSeed) {
  const Arm first = Parse("separate"), arm = Parse("shared");
  const train::TrainConfig config = MakeConfig(kShared, arm, first, Budget::kSteps, 7, Photos());
  EXPECT_EQ(config.attention, "shared");
  EXPECT_EQ(config.seed, 7);
  EXPECT_EQ(config.epochs, 4);
  EXPECT_EQ(config.mlp_ratio, train::TrainConfig().mlp_ratio);
}

TEST(Budget, OfParametersIsMadeUpByTheMlp) {
  const Arm first = Parse("separate");
  const int64_t wanted =
      model::Parameters(MakeModelConfig(MakeConfig(kShared, first, first, Budget::kParameters, 0, Photos())));
  for (const char* name : {"shared", "unified", "merged", "low_rank:rank=4", "gaussian", "separate:qkv-bias=false"}) {
    const Arm arm = Parse(name);
    const train::TrainConfig config = MakeConfig(kShared, arm, first, Budget::kParameters, 0, Photos());
    // The MLP grows by 2 · 96 + 1 parameters in each of three blocks: half of that is as near as it can be.
    EXPECT_NEAR(model::Parameters(MakeModelConfig(config)), wanted, 290) << name;
  }
}

TEST(Budget, OfParametersOfAGatedMlpIsAsNearAsItsSteps) {
  train::Settings gated = kShared;
  gated["mlp"] = "swiglu";
  const Arm first = Parse("separate"), arm = Parse("unified");
  const auto count = [&](const Arm& of) {
    return model::Parameters(MakeModelConfig(MakeConfig(gated, of, first, Budget::kParameters, 0, Photos())));
  };
  EXPECT_NEAR(count(arm), count(first), 16 * 290 * 3 / 2);  // 16 hidden units of three weights each at a time
}

TEST(Budget, OfParametersThatNoMlpCanMakeUpFor) {
  EXPECT_THROW(MakeConfig(kShared, Parse("separate"), Parse("unified:mlp-ratio=0.1"), Budget::kParameters, 0, Photos()),
               Error);
}

TEST(Budget, OfMultiplyAddsIsMadeUpBySteps) {
  const Arm first = Parse("separate");
  for (const char* name : {"shared", "merged", "gaussian"}) {
    const train::TrainConfig config = MakeConfig(kShared, Parse(name), first, Budget::kFlops, 0, Photos());
    const double a_step = model::Flops(MakeModelConfig(config)),
                 first_step =
                     model::Flops(MakeModelConfig(MakeConfig(kShared, first, first, Budget::kSteps, 0, Photos())));
    EXPECT_NEAR(static_cast<double>(config.steps) * a_step, 80 * first_step, 0.5 * a_step) << name;
  }
}

// The same of a task: 100 steps count as an epoch.
TEST(Budget, OfSequences) {
  const train::Settings shared = {{"preset", "seq-task"}, {"width", "32"}, {"heads", "2"}, {"epochs", "4"}};
  AblationData data;
  data.given = "task:reverse", data.name = "reverse";
  const Arm first = ParseArm("separate", shared);
  const auto model = [&](const train::TrainConfig& config) {
    return train::NewSequenceModel(config, train::SequencesForTraining(data.given, config));
  };
  const auto of = [&](const Arm& arm, Budget budget) { return MakeConfig(shared, arm, first, budget, 3, data); };
  const train::TrainConfig plain = of(first, Budget::kSteps);
  EXPECT_EQ(plain.seed, 3);
  EXPECT_EQ(plain.steps, 0);
  for (const char* name : {"unified", "merged", "low_rank", "separate:batch=7"}) {
    const Arm arm = ParseArm(name, shared);
    EXPECT_NEAR(model::Parameters(model(of(arm, Budget::kParameters))), model::Parameters(model(plain)), 65) << name;
    const train::TrainConfig config = of(arm, Budget::kFlops);
    const double a_step = model::Flops(model(config)), first_step = model::Flops(model(plain));
    EXPECT_NEAR(static_cast<double>(config.steps) * a_step, 400 * first_step, 0.5 * a_step) << name;
  }
  train::Settings rotary = shared;
  rotary["positions"] = "rotary";
  EXPECT_NO_THROW(MakeConfig(rotary, Parse("shared"), first, Budget::kSteps, 0, data));
  for (const char* kind : {"merged", "gaussian", "positional"}) {
    EXPECT_THROW(MakeConfig(rotary, ParseArm(kind, rotary), first, Budget::kSteps, 0, data), Error) << kind;
  }
}

}  // namespace
}  // namespace qkv::lab
