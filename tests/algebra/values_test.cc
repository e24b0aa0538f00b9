// Note 18: values made from keys.
#include "qkv/algebra/values.h"

#include "qkv/algebra/rope.h"
#include "tests/algebra/support.h"

namespace qkv::algebra {
namespace {

// Whether the values of the tokens come back from their keys, within the condition number times their rounding.
void ExpectValuesFromKeys(const ProjectionView& key, const ProjectionView& value, const Tensor<double>& tokens) {
  const ValuesFromKeys from = MakeValuesFromKeys(key, value);
  const Tensor<double> keys = Apply(key, tokens);
  const double magnitude = SideNorm(value) * TokenNorm(tokens) * (1 + Norm(key.bias));
  EXPECT_LE(MaxDifference(Apply(from.from_keys, keys), Project(value, tokens)),
            from.condition * StepTolerance(4, key.weight.dim(0), magnitude));
  EXPECT_GE(from.condition, 1);
}

void RandomProjections() {
  for (const int64_t D : {1, 4, 24, 65}) {
    for (const int64_t outputs : {D, D + 3}) {
      Sampler sampler(static_cast<uint64_t>(D));
      const auto key = sampler.Normal<double>({D, D}), value = sampler.Normal<double>({outputs, D});
      const auto b_k = sampler.Normal<double>({D}), b_v = sampler.Normal<double>({outputs}),
                 tokens = sampler.Normal<double>({7, D});
      ExpectValuesFromKeys({key, b_k}, {value, b_v}, tokens);
      ExpectValuesFromKeys({key, {}}, {value, b_v}, tokens);
      ExpectValuesFromKeys({key, b_k}, {value, {}}, tokens);
      ExpectValuesFromKeys({key, {}}, {value, {}}, tokens);
      EXPECT_TRUE(MakeValuesFromKeys({key, {}}, {value, {}}).from_keys.bias.empty());
    }
  }
}

TEST(ValuesFromKeys, Random) { RandomProjections(); }

TEST(ValuesFromKeys, TrainedLayers) {
  const char* folder = ::getenv("QKV_REFERENCE");
  if (!folder) GTEST_SKIP() << "QKV_REFERENCE is not set";
  for (const auto& [model, blocks] : {std::pair{"digits-vit", 4}, {"cifar10-vit", 6}}) {
    const auto weights = io::SafeTensors::Open(std::filesystem::path(folder) / model / "model.safetensors");
    for (int block = 0; block < blocks; ++block) {
      SCOPED_TRACE(fmt::format("{} block {}", model, block));
      const auto qkv = io::Convert<double>(*weights.Find(fmt::format("blocks.{}.attn.qkv.weight", block)));
      const auto bias = io::Convert<double>(*weights.Find(fmt::format("blocks.{}.attn.qkv.bias", block)));
      const int64_t D = qkv.dim(1);
      const auto part = [&](int64_t p) {
        return ProjectionView{qkv.view().slice(0, p * D, (p + 1) * D), bias.view().slice(0, p * D, (p + 1) * D)};
      };
      ExpectValuesFromKeys(part(1), part(2), Sampler(5).Normal<double>({9, D}));
    }
  }
}

TEST(ValuesFromKeys, AKnownConditionNumber) {
  Tensor<double> key({3, 3}), value({3, 3});
  key[0] = 8, key[4] = -2, key[8] = 0.5;
  value[1] = 1;
  const ValuesFromKeys from = MakeValuesFromKeys({key, {}}, {value, {}});
  EXPECT_NEAR(from.condition, 16, 1e-13);
  EXPECT_NEAR(from.from_keys.weight[1], -0.5, 1e-15);
}

TEST(ValuesFromKeys, NotAfterRotaryPositions) {
  Sampler sampler(3);
  const auto key = sampler.Normal<double>({4, 4}), value = sampler.Normal<double>({4, 4}),
             tokens = sampler.Normal<double>({5, 4});
  const ValuesFromKeys from = MakeValuesFromKeys({key, {}}, {value, {}});
  const Projection rotated = Rotate({key, {}}, {}, 1);
  EXPECT_GT(MaxDifference(Apply(from.from_keys, Apply(rotated, tokens)), Apply({value, {}}, tokens)), 0.01);
}

TEST(ValuesFromKeys, KeysThatForgetAreRefused) {
  const auto narrow = Sampler(1).Normal<double>({4, 6}), value = Sampler(2).Normal<double>({6, 6});
  EXPECT_THROW(MakeValuesFromKeys({narrow, {}}, {value, {}}), Error);
  Tensor<double> singular({6, 6});
  for (int64_t i = 0; i < 5; ++i) singular[i * 7] = 1;
  EXPECT_THROW(MakeValuesFromKeys({singular, {}}, {value, {}}), Error);
  EXPECT_THROW(MakeValuesFromKeys({value, {}}, {Sampler(3).Normal<double>({6, 5}), {}}), Error);
}

}  // namespace
}  // namespace qkv::algebra
