// Whole models in training: gradients against differences of the loss, images alone and together, recomputed, on any
// number of threads; and answers against those of inference's goldens.
#include "qkv/train/network/network.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "qkv/core/parallel.h"
#include "qkv/io/safetensors.h"
#include "qkv/model/checkpoint/checkpoint.h"
#include "qkv/model/layout/bound_tensor.h"
#include "qkv/model/vision/vit.h"
#include "qkv/simd/gemm/gemm.h"
#include "tests/support/difference.h"
#include "tests/support/errors.h"
#include "tests/support/goldens.h"
#include "tests/support/gradients.h"
#include "tests/support/threads.h"
#include "tests/train/networks.h"

namespace qkv::train {
namespace {

template <typename T>
bool SameBits(const Tensor<T>& a, const Tensor<T>& b) {
  return a.shape() == b.shape() && std::memcmp(a.data(), b.data(), sizeof(T) * static_cast<size_t>(a.size())) == 0;
}

// A model, its batch, and what comes of them.
template <typename T>
struct Trial {
  explicit Trial(const NamedConfig& of, int64_t B = 3)
      : options(of.options), network(of.config), weights(RandomWeights<T>(network.layout())) {
    const model::VitConfig& c = of.config;
    Sampler sampler(4);
    pixels = Cast<T>(sampler.Normal<float>({B, c.channels, c.image_height, c.image_width}));
    dlogits = Cast<T>(sampler.Normal<float>({B, c.outputs()}));
    logits = Tensor<T>({B, c.outputs()});
    gradients = Tensor<T>({network.layout().size()});
  }

  void Forward() { network.Forward(weights, pixels, options, workspace, logits); }
  void Backward() { network.Backward(weights, dlogits, workspace, gradients); }
  double Loss() {
    Forward();
    return WeightedSum(dlogits, logits);
  }

  NetworkOptions options;
  Network<T> network;
  Tensor<T> weights, pixels, dlogits, logits, gradients;
  typename Network<T>::Workspace workspace;
};

class NetworkTest : public testing::TestWithParam<NamedConfig> {};
INSTANTIATE_TEST_SUITE_P(Configs, NetworkTest, testing::ValuesIn(NamedConfigs()),
                         [](const auto& test) { return test.param.name; });

TEST_P(NetworkTest, GradientIsThatOfTheLoss) {
  Trial<double> run(GetParam());
  run.Forward();
  run.Backward();
  ExpectGradient([&] { return run.Loss(); }, run.weights, run.gradients, "weights");
}

// Sums of rounding errors in another order, of entries up to some ten.
// What inference folds, packs, merges and computes in other orders: some hundred roundings of numbers of order one.
TEST_P(NetworkTest, InferenceAnswersTheSame) {
  Trial<double> run(GetParam());
  run.options = {};
  run.Forward();
  const model::VitConfig& c = GetParam().config;
  const BoundWeights<double> tensors(c, run.network.layout(), run.weights);
  const model::Vit<double> vit(c, tensors.bound);
  model::Workspace<double> workspace;
  Tensor<double> logits(run.logits.shape());
  vit.Forward(run.pixels, workspace, {.logits = logits});
  for (int64_t i = 0; i < logits.size(); ++i) ASSERT_NEAR(logits[i], run.logits[i], 1e-11);
}

// A model for another size is the same model whose configuration says that size.
TEST(RotaryVit, OtherGridsAreThoseOfAModelOfThatSize) {
  for (const NamedConfig& of : NamedConfigs()) {
    if (of.name != "RotaryNormalised") continue;
    const Trial<double> run(of);
    const BoundWeights<double> tensors(of.config, run.network.layout(), run.weights);
    model::VitConfig larger = of.config;
    larger.image_height *= 2, larger.image_width *= 3;
    const model::Vit<double> trained(of.config, tensors.bound), other(larger, tensors.bound);
    const auto pixels = Sampler(4).Normal<double>({2, larger.channels, larger.image_height, larger.image_width});
    Tensor<double> expected({2, larger.outputs()}), got(expected.shape());
    model::Workspace<double> workspace, again;
    other.Forward(pixels, workspace, {.logits = expected});
    trained.Forward(pixels, again, {.logits = got});
    for (int64_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], 1e-12);
  }
}

// A workspace whose last pass had the trained grid has nothing left of an earlier grid of as many patches.
TEST(RotaryVit, AWorkspaceTakesTheGridOfItsLastPass) {
  for (const NamedConfig& of : NamedConfigs()) {
    if (of.config.rotary == model::PatchRotary::kNone) continue;
    SCOPED_TRACE(of.name);
    const Trial<double> run(of);
    const model::VitConfig& c = of.config;
    const BoundWeights<double> tensors(c, run.network.layout(), run.weights);
    const model::Vit<double> vit(c, tensors.bound);
    const auto other = Sampler(4).Normal<double>({1, c.channels, c.image_height / 2, c.image_width * 2});
    const auto trained = Sampler(5).Normal<double>({1, c.channels, c.image_height, c.image_width});
    Tensor<double> logits({1, c.outputs()}), hidden({1, c.tokens(), c.block.width});
    const auto weights = [&](bool other_before) {
      model::Workspace<double> workspace;
      Tensor<double> out({1, c.block.attention.heads, c.tokens(), c.tokens()});
      if (other_before) vit.Forward(other, workspace, {.logits = logits});
      vit.Forward(trained, workspace, {.logits = logits, .hidden = {{0, hidden}}});
      const nn::WeightsRequest<double> request{.row_end = c.tokens(), .out = out};
      vit.BlockWeights(hidden, 0, workspace, std::span(&request, 1));
      return out;
    };
    EXPECT_TRUE(SameBits(weights(true), weights(false)));
  }
}

TEST_P(NetworkTest, ImagesDoNotKnowOfEachOther) {
  Trial<double> run(GetParam());
  run.Forward();
  run.Backward();
  Tensor<double> gradients(run.gradients.shape()), logits({1, run.logits.dim(1)});
  Network<double>::Workspace workspace;
  for (int64_t b = 0; b < run.logits.dim(0); ++b) {
    NetworkOptions options = run.options;
    options.first_image = b;
    const auto image = [&](const Tensor<double>& all) { return all.view().slice(0, b, b + 1); };
    run.network.Forward(run.weights, image(run.pixels), options, workspace, logits);
    run.network.Backward(run.weights, image(run.dlogits), workspace, gradients);
    for (int64_t c = 0; c < logits.size(); ++c) ASSERT_NEAR(logits[c], *run.logits.view().at(b, c), 1e-12);
  }
  for (int64_t i = 0; i < gradients.size(); ++i) ASSERT_NEAR(gradients[i], run.gradients[i], 1e-11);
}

TEST_P(NetworkTest, CheckpointsChangeNoBit) {
  Trial<float> kept(GetParam()), recomputed(GetParam());
  recomputed.options.checkpointing = true;
  for (Trial<float>* run : {&kept, &recomputed}) {
    run->Forward();
    run->Backward();
  }
  EXPECT_TRUE(SameBits(kept.logits, recomputed.logits));
  EXPECT_TRUE(SameBits(kept.gradients, recomputed.gradients));
  if (GetParam().config.depth > 1) {
    EXPECT_LT(recomputed.workspace.peak_bytes(), kept.workspace.peak_bytes());
  }
}

TEST_P(NetworkTest, ThreadsChangeNoBit) {
  const RestoreThreads restore;
  std::vector<Tensor<float>> gradients;
  for (const int threads : {1, 2, 3}) {
    SetNumThreads(threads);
    Trial<float> run(GetParam(), 7);
    run.Forward();
    run.Backward();
    gradients.push_back(std::move(run.gradients));
  }
  EXPECT_TRUE(SameBits(gradients[0], gradients[1]));
  EXPECT_TRUE(SameBits(gradients[0], gradients[2]));
}

// Each product rounds its factors by half of 2^-8, and some ten of them follow one another; where the processor has no
// instruction for bfloat16, nothing is rounded.
TEST_P(NetworkTest, GradientInBfloat16IsNear) {
  Trial<double> exact(GetParam());
  Trial<float> rounded(GetParam());
  rounded.options.bf16 = true;
  exact.Forward(), exact.Backward();
  rounded.Forward(), rounded.Backward();
  double distance = 0, norm = 0;
  for (int64_t i = 0; i < exact.gradients.size(); ++i) {
    const double difference = static_cast<double>(rounded.gradients[i]) - exact.gradients[i];
    distance += difference * difference, norm += exact.gradients[i] * exact.gradients[i];
  }
  EXPECT_LE(distance, 0.1 * 0.1 * norm);
  const bool rounds = simd::Describe(simd::Precision::kBfloat16).native && GetParam().config.depth > 0;
  EXPECT_EQ(distance > 1e-4 * 1e-4 * norm, rounds);
}

// From the last element to the first, each once, and final when it is told.
TEST_P(NetworkTest, TellsWhichGradientsAreFinished) {
  Trial<float> run(GetParam());
  run.Forward();
  Tensor<float> told(run.gradients.shape());
  int64_t rest = run.network.layout().size();
  run.network.Backward(run.weights, run.dlogits, run.workspace, run.gradients, [&](int64_t begin, int64_t end) {
    EXPECT_EQ(end, rest);
    std::copy(run.gradients.data() + begin, run.gradients.data() + end, told.data() + begin);
    rest = begin;
  });
  EXPECT_EQ(rest, 0);
  EXPECT_TRUE(SameBits(told, run.gradients));
}

// Padding between tensors is nobody's. The biases of keys add the same to all scores of a query, which the softmax
// takes away.
TEST_P(NetworkTest, EveryTensorHasAGradientAndNothingElseHas) {
  Trial<double> run(GetParam());
  run.Forward();
  run.Backward();
  double outside = 0;
  for (const double g : run.gradients.span()) outside += std::abs(g);
  for (const Slot& slot : run.network.layout().slots()) {
    double sum = 0;
    for (int64_t i = 0; i < slot.shape.size(); ++i) sum += std::abs(run.gradients[slot.offset + i]);
    const bool of_keys = slot.name.ends_with("key.bias") || slot.name.ends_with("k_norm.bias");
    EXPECT_TRUE(of_keys || sum > 1e-9) << slot.name;
    outside -= sum;
  }
  EXPECT_NEAR(outside, 0, 1e-9);
}

TEST(NetworkErrors, SayWhatDoesNotFit) {
  Trial<float> run({"", SmallConfig()});
  EXPECT_THROW(run.Backward(), Error);  // nothing went before
  run.Forward();
  run.Backward();
  EXPECT_THROW(run.Backward(), Error);  // its forward pass is used up
  Tensor<float> pixels({3, 2, 8, 12}), few({run.weights.size() - 1}), logits({3, 4});
  EXPECT_THROW(run.network.Forward(run.weights, pixels, {}, run.workspace, run.logits), Error);
  EXPECT_THROW(run.network.Forward(few, run.pixels, {}, run.workspace, run.logits), Error);
  EXPECT_THROW(run.network.Forward(run.weights, run.pixels, {}, run.workspace, logits), Error);
  run.Forward();
  EXPECT_THROW(run.network.Backward(run.weights, logits, run.workspace, run.gradients), Error);
}

TEST(NetworkConstrain, KeepsBandwidthsWhereCheckpointsMayHaveThem) {
  model::VitConfig config = SmallConfig();
  config.block.attention.kind = nn::AttentionKind::kGaussian;
  Trial<float> run({"", config});
  const View<float> bandwidth = run.network.layout().At("blocks.1.attn.qk.bandwidth", run.weights.view());
  bandwidth.data()[1] = -0.5f;
  Tensor<float> expected = run.weights.Clone();
  *run.network.layout().At("blocks.1.attn.qk.bandwidth", expected.view()).at(1) =
      static_cast<float>(nn::kLeastBandwidth);
  run.network.Constrain(run.weights);
  EXPECT_TRUE(SameBits(run.weights, expected));
}

TEST(NetworkErrors, BiasesByRelativePositionAreNotTrained) {
  for (const char* golden : {"hf_beit", "timm_beit_shared"}) {
    const model::VitConfig config = model::Checkpoint::Open(GoldenFolder(golden)).description.config;
    const std::string message = ErrorMessage([&] { Network<float>{config}; });
    EXPECT_NE(message.find("its scores have biases by relative position"), std::string::npos) << message;
  }
}

TEST(Network, RefusesBlocksThatOnlyInferenceHas) {
  for (const char* golden : {"timm_output_norms", "timm_parallel", "timm_eva02_output_norms"}) {
    const model::VitConfig config = model::Checkpoint::Open(GoldenFolder(golden)).description.config;
    const std::string message = ErrorMessage([&] { Network<float>{config}; });
    EXPECT_NE(message.find("only inference"), std::string::npos) << message;
  }
}

// The goldens of inference whose pixels have the size that the model was made for. Learned frequencies of rotary
// positions, biases by relative position, norms of outputs, MLPs beside attention, detectors and models of masks are
// not trained.
std::vector<std::string> GoldensOfTheirSize() {
  std::vector<std::string> names = GoldenNames();
  std::erase_if(names, [](const std::string& name) {
    return name.find("resized") != std::string::npos || name.find("rope_mixed") != std::string::npos ||
           name.find("yolos") != std::string::npos || name.find("eomt") != std::string::npos ||
           name.find("beit") != std::string::npos || name.find("data2vec") != std::string::npos ||
           name.find("output_norms") != std::string::npos || name.find("parallel") != std::string::npos;
  });
  return names;
}
class NetworkGolden : public testing::TestWithParam<std::string> {
 protected:
  template <typename T>
  Tensor<T> ComputeLogits() {
    const model::Checkpoint checkpoint = model::Checkpoint::Open(GoldenFolder(GetParam()));
    expected_ = io::SafeTensors::Open(GoldenFolder(GetParam()) / "expected.safetensors");
    const Network<T> network(checkpoint.description.config);
    const model::VitConfig& c = network.config();
    Tensor<T> weights({network.layout().size()});
    for (const model::BoundTensor& bound : checkpoint.bound) {
      const Tensor<T> values = model::Read<T>(bound);
      std::copy_n(values.data(), values.size(), network.layout().At(bound.spec.name, weights.view()).data());
    }
    const auto pixels = io::Convert<T>(*expected_.Find("pixels"));
    Tensor<T> logits({pixels.dim(0), c.outputs()});
    typename Network<T>::Workspace workspace;
    network.Forward(weights, pixels, {}, workspace, logits);
    return logits;
  }

  io::SafeTensors expected_;
};
INSTANTIATE_TEST_SUITE_P(Cases, NetworkGolden, testing::ValuesIn(GoldensOfTheirSize()),
                         [](const auto& test) { return test.param; });

// As tests/model/golden_test.cc has it for inference, and for the same reasons.
TEST_P(NetworkGolden, FloatAgreesAsFarAsTheOriginalsOwnFloatDoes) {
  const Tensor<float> ours = ComputeLogits<float>();
  const auto single = io::Convert<double>(*expected_.Find("logits"));
  const auto exact = io::Convert<double>(*expected_.Find("logits.float64"));
  EXPECT_LE(MaxDifference(ours, exact), 4 * MaxDifference(single, exact) + 1e-6 * MaxAbs(exact));
}
TEST_P(NetworkGolden, DoubleAgreesToTheLastDigits) {
  const Tensor<double> ours = ComputeLogits<double>();
  const auto exact = io::Convert<double>(*expected_.Find("logits.float64"));
  const double tolerance = GetParam().find("simple") == std::string::npos ? 1e-13 : 1e-6;
  EXPECT_LE(MaxDifference(ours, exact), tolerance * std::max(1.0, MaxAbs(exact)));
}

}  // namespace
}  // namespace qkv::train
