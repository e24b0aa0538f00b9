// Note 18: values made from keys.
#include "qkv/algebra/values.h"

#include "qkv/algebra/rope.h"
#include "tests/algebra/support.h"

namespace qkv::algebra {
namespace {

// Whether the values of the tokens come back from their keys, within the condition number times their rounding.
template <typename T>
void ExpectValuesFromKeys(const ProjectionView<T>& key, const ProjectionView<T>& value, const Tensor<T>& tokens) {
  const ValuesFromKeys<T> from = MakeValuesFromKeys(key, value);
  const Tensor<T> keys = Apply<T>(key, tokens);
  const double magnitude = SideNorm(value) * TokenNorm(tokens) * (1 + Norm(key.bias));
  EXPECT_LE(MaxDifference(Apply<T>(from.from_keys, keys), Project(value, tokens)),
            from.condition * StepTolerance<T>(4, key.weight.dim(0), magnitude));
  EXPECT_GE(from.condition, 1);
}

template <typename T>
void RandomProjections() {
  for (const int64_t D : {1, 4, 24, 65}) {
    for (const int64_t outputs : {D, D + 3}) {
      Sampler sampler(static_cast<uint64_t>(D));
      const auto key = sampler.Normal<T>({D, D}), value = sampler.Normal<T>({outputs, D});
      const auto b_k = sampler.Normal<T>({D}), b_v = sampler.Normal<T>({outputs}), tokens = sampler.Normal<T>({7, D});
      ExpectValuesFromKeys<T>({key, b_k}, {value, b_v}, tokens);
      ExpectValuesFromKeys<T>({key, {}}, {value, b_v}, tokens);
      ExpectValuesFromKeys<T>({key, b_k}, {value, {}}, tokens);
      ExpectValuesFromKeys<T>({key, {}}, {value, {}}, tokens);
      EXPECT_TRUE(MakeValuesFromKeys<T>({key, {}}, {value, {}}).from_keys.bias.empty());
    }
  }
}

TEST(ValuesFromKeys, RandomFloat) { RandomProjections<float>(); }
TEST(ValuesFromKeys, RandomDouble) { RandomProjections<double>(); }

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
        return ProjectionView<double>{qkv.view().slice(0, p * D, (p + 1) * D),
                                      bias.view().slice(0, p * D, (p + 1) * D)};
      };
      ExpectValuesFromKeys(part(1), part(2), Sampler(5).Normal<double>({9, D}));
    }
  }
}

TEST(ValuesFromKeys, AKnownConditionNumber) {
  Tensor<double> key({3, 3}), value({3, 3});
  key[0] = 8, key[4] = -2, key[8] = 0.5;
  value[1] = 1;
  const ValuesFromKeys<double> from = MakeValuesFromKeys<double>({key, {}}, {value, {}});
  EXPECT_NEAR(from.condition, 16, 1e-13);
  EXPECT_NEAR(from.from_keys.weight[1], -0.5, 1e-15);
}

TEST(ValuesFromKeys, NotAfterRotaryPositions) {
  Sampler sampler(3);
  const auto key = sampler.Normal<double>({4, 4}), value = sampler.Normal<double>({4, 4}),
             tokens = sampler.Normal<double>({5, 4});
  const ValuesFromKeys<double> from = MakeValuesFromKeys<double>({key, {}}, {value, {}});
  const Projection<double> rotated = Rotate<double>({key, {}}, {}, 1);
  EXPECT_GT(
      MaxDifference(Apply<double>(from.from_keys, Apply<double>(rotated, tokens)), Apply<double>({value, {}}, tokens)),
      0.01);
}

TEST(ValuesFromKeys, KeysThatForgetAreRefused) {
  const auto narrow = Sampler(1).Normal<float>({4, 6}), value = Sampler(2).Normal<float>({6, 6});
  EXPECT_THROW(MakeValuesFromKeys<float>({narrow, {}}, {value, {}}), Error);
  Tensor<float> singular({6, 6});
  for (int64_t i = 0; i < 5; ++i) singular[i * 7] = 1;
  EXPECT_THROW(MakeValuesFromKeys<float>({singular, {}}, {value, {}}), Error);
  EXPECT_THROW(MakeValuesFromKeys<float>({value, {}}, {Sampler(3).Normal<float>({6, 5}), {}}), Error);
}

}  // namespace
}  // namespace qkv::algebra
