// Pairs of encoder and decoder in training: gradients against differences of the loss, texts alone and together,
// padding, recomputation, threads; and answers equal to those of inference.
#include "qkv/train/network/pair_network.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "qkv/core/parallel.h"
#include "qkv/train/run/pair_model.h"
#include "tests/support/gradients.h"
#include "tests/support/pairs.h"
#include "tests/support/sampler.h"
#include "tests/support/threads.h"
#include "tests/train/networks.h"

namespace qkv::train {
namespace {

template <typename T>
bool SameBits(const Tensor<T>& a, const Tensor<T>& b) {
  return a.shape() == b.shape() && std::memcmp(a.data(), b.data(), sizeof(T) * static_cast<size_t>(a.size())) == 0;
}

// A model, a padded batch, and what comes of them.
template <typename T>
struct PairTrial {
  explicit PairTrial(const PairConfig& c, std::vector<int64_t> source = {6, 3, 5},
                     std::vector<int64_t> target = {4, 5, 2})
      : network(c), weights(RandomWeights<T>(network.layout())), gradients({network.layout().size()}) {
    const int64_t B = std::ssize(source), N = std::ranges::max(source), M = std::ranges::max(target);
    Sampler sampler(4);
    const auto draw = [&](const Shape& shape) {
      Tensor<int32_t> tokens(shape);
      for (int32_t& token : tokens.span()) token = static_cast<int32_t>(sampler.rng().Next() % 11);
      return tokens;
    };
    source_tokens = draw({B, N}), target_tokens = draw({B, M});
    source_lengths = Tensor<int64_t>({B}), target_lengths = Tensor<int64_t>({B});
    std::ranges::copy(source, source_lengths.data()), std::ranges::copy(target, target_lengths.data());
    dlogits = Cast<T>(sampler.Normal<float>({B, M, c.decoder.outputs}));
    logits = Tensor<T>(dlogits.shape());
    for (int64_t b = 0; b < B; ++b) {
      const int64_t length = target[static_cast<size_t>(b)];
      std::fill_n(dlogits.view().at(b, length), (M - length) * c.decoder.outputs, T{0});
    }
  }

  PairInput input() const {
    return {source_tokens.view(), source_lengths.view(), target_tokens.view(), target_lengths.view()};
  }
  void Forward() { network.Forward(weights, input(), options, workspace, logits); }
  void Backward() { network.Backward(weights, dlogits, workspace, gradients); }
  double Loss() {
    Forward();
    return WeightedSum(dlogits, logits);
  }

  NetworkOptions options;
  PairNetwork<T> network;
  Tensor<T> weights;
  Tensor<int32_t> source_tokens, target_tokens;
  Tensor<int64_t> source_lengths, target_lengths;
  Tensor<T> dlogits, logits, gradients;
  typename PairNetwork<T>::Workspace workspace;
};

class PairNetworkTest : public testing::TestWithParam<NamedPair> {};
INSTANTIATE_TEST_SUITE_P(Configs, PairNetworkTest, testing::ValuesIn(NamedPairs()),
                         [](const auto& test) { return test.param.name; });

TEST_P(PairNetworkTest, GradientIsThatOfTheLoss) {
  PairTrial<double> run(GetParam().config);
  run.Forward();
  run.Backward();
  ExpectGradient([&] { return run.Loss(); }, run.weights, run.gradients, "weights");
}

TEST_P(PairNetworkTest, GradientWithChancesIsThatOfTheLoss) {
  PairTrial<double> run(GetParam().config, {2, 4}, {3, 1});
  run.options = {.dropout = 0.2, .attention_dropout = 0.3, .drop_path = 0.4, .seed = 9};
  run.Forward();
  run.Backward();
  ExpectGradient([&] { return run.Loss(); }, run.weights, run.gradients, "weights");
}

// Sums of rounding errors in another order. Alone a text has no padding.
TEST_P(PairNetworkTest, TextsDoNotKnowOfEachOtherNorOfPadding) {
  PairTrial<double> run(GetParam().config);
  run.Forward();
  run.Backward();
  Tensor<double> gradients(run.gradients.shape());
  PairNetwork<double>::Workspace workspace;
  for (int64_t b = 0; b < run.logits.dim(0); ++b) {
    const int64_t N = run.source_lengths[b], M = run.target_lengths[b], V = run.logits.dim(2);
    Tensor<int32_t> source({1, N}), target({1, M});
    std::copy_n(run.source_tokens.view().at(b), N, source.data());
    std::copy_n(run.target_tokens.view().at(b), M, target.data());
    const PairInput one{source.view(), run.source_lengths.view().slice(0, b, b + 1), target.view(),
                        run.target_lengths.view().slice(0, b, b + 1)};
    Tensor<double> logits({1, M, V}), dlogits({1, M, V});
    std::copy_n(run.dlogits.view().at(b), M * V, dlogits.data());
    run.network.Forward(run.weights, one, {}, workspace, logits);
    run.network.Backward(run.weights, dlogits, workspace, gradients);
    for (int64_t i = 0; i < logits.size(); ++i) ASSERT_NEAR(logits[i], run.logits.view().at(b)[i], 1e-12);
  }
  for (int64_t i = 0; i < gradients.size(); ++i) ASSERT_NEAR(gradients[i], run.gradients[i], 1e-10);
}

TEST_P(PairNetworkTest, CheckpointsAndThreadsChangeNoBit) {
  const RestoreThreads restore;
  std::vector<Tensor<float>> gradients;
  for (const int threads : {1, 2, 3}) {
    for (const bool checkpoint : {false, true}) {
      SetNumThreads(threads);
      PairTrial<float> run(GetParam().config);
      run.options = {.dropout = 0.1, .attention_dropout = 0.1, .seed = 3, .checkpointing = checkpoint};
      run.Forward();
      run.Backward();
      gradients.push_back(std::move(run.gradients));
    }
  }
  for (const Tensor<float>& other : gradients) EXPECT_TRUE(SameBits(gradients[0], other));
}

// The same sums in two precisions: some hundred roundings of numbers of order ten.
TEST_P(PairNetworkTest, FloatComesNearDouble) {
  PairTrial<float> single(GetParam().config);
  PairTrial<double> exact(GetParam().config);
  std::copy_n(single.weights.data(), single.weights.size(), exact.weights.data());
  std::copy_n(single.dlogits.data(), single.dlogits.size(), exact.dlogits.data());
  single.Forward(), single.Backward();
  exact.Forward(), exact.Backward();
  double greatest = 1;
  for (const double g : exact.gradients.span()) greatest = std::max(greatest, std::abs(g));
  for (int64_t i = 0; i < exact.gradients.size(); ++i) {
    ASSERT_NEAR(single.gradients[i], exact.gradients[i], 1e-5 * greatest) << i;
  }
}

// From the last element to the first, each once, and final when it is told.
TEST_P(PairNetworkTest, TellsWhichGradientsAreFinished) {
  PairTrial<float> run(GetParam().config);
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

// What inference folds, packs and computes in other orders, in float.
TEST_P(PairNetworkTest, InferenceAnswersTheSame) {
  PairTrial<float> run(GetParam().config);
  run.Forward();
  const model::TextModel model = MakeTextModel(run.network, run.weights);
  const int64_t B = run.logits.dim(0), N = run.source_tokens.dim(1), M = run.target_tokens.dim(1);
  Tensor<bool> mask({B, N});
  for (int64_t b = 0; b < B; ++b) std::fill_n(mask.view().row(b), run.source_lengths[b], true);
  Tensor<float> logits(run.logits.shape());
  model::TextWorkspace workspace;
  model.Forward({.ids = run.source_tokens.view(), .mask = mask.view(), .decoder_ids = run.target_tokens.view()},
                workspace, {.logits = logits.view()});
  for (int64_t b = 0; b < B; ++b) {
    for (int64_t i = 0; i < run.target_lengths[b] * logits.dim(2); ++i) {
      ASSERT_NEAR(logits.view().at(b)[i], run.logits.view().at(b)[i], 2e-4) << b << " " << i << " of " << M;
    }
  }
}

TEST(PairNetworkErrors, SayWhatDoesNotFit) {
  PairTrial<float> run(SmallPair());
  EXPECT_THROW(run.Backward(), Error);  // nothing went before
  run.Forward();
  run.Backward();
  EXPECT_THROW(run.Backward(), Error);  // its forward pass is used up
  run.source_lengths[1] = 7;
  EXPECT_THROW(run.Forward(), Error);
  run.source_lengths[1] = 0;
  EXPECT_THROW(run.Forward(), Error);
  run.source_lengths[1] = 3;
  for (const int32_t token : {-1, 11}) {
    run.target_tokens[3] = token;
    EXPECT_THROW(run.Forward(), Error) << token;
  }
  const auto refused = [](auto&& change) {
    PairConfig c = SmallPair();
    change(c);
    EXPECT_THROW(PairNetwork<float>{c}, Error);
  };
  refused([](PairConfig& c) { c.encoder.positions = model::SequencePositions::kLearned; });
  refused([](PairConfig& c) { c.decoder.causal = false; });
  refused([](PairConfig& c) { c.decoder.tied_head = false; });
  refused([](PairConfig& c) { c.decoder.block.cross.reset(); });
  refused([](PairConfig& c) { c.encoder.vocabulary = 12; });
  refused([](PairConfig& c) { c.encoder.causal = true; });
}

// Tokens have length 1 in the mean, and every matrix the deviation of Glorot and Bengio.
TEST(PairInitialisation, HasTheDeviationsThatItSays) {
  PairConfig c = SmallPair();
  for (model::SequenceConfig* part : {&c.encoder, &c.decoder}) {
    part->vocabulary = 200, part->block.width = 64, part->block.mlp.width = 192;
    part->block.attention.head_width = 32;
  }
  c.decoder.outputs = 200, c.decoder.block.cross->head_width = 32;
  const PairNetwork<float> network(c);
  Tensor<float> weights({network.layout().size()});
  network.Initialise({.seed = 3}, weights);
  const auto deviation = [&](const char* name) {
    const View<const float> tensor = network.layout().At(name, View<const float>(weights));
    double squares = 0;
    for (int64_t i = 0; i < tensor.size(); ++i) squares += static_cast<double>(tensor.data()[i]) * tensor.data()[i];
    return std::sqrt(squares / static_cast<double>(tensor.size()));
  };
  EXPECT_NEAR(deviation("token_embed.weight"), 0.125, 0.005);
  EXPECT_NEAR(deviation("encoder.blocks.0.attn.qkv.weight"), 0.125, 0.005);
  EXPECT_NEAR(deviation("decoder.blocks.1.cross_attn.kv.weight"), 0.125, 0.005);
  EXPECT_NEAR(deviation("decoder.blocks.0.mlp.fc2.weight"), std::sqrt(2.0 / 256), 0.005);
  EXPECT_NE(network.layout().At("encoder.blocks.0.attn.proj.weight", View<const float>(weights)).data()[0],
            network.layout().At("decoder.blocks.0.attn.proj.weight", View<const float>(weights)).data()[0]);
  EXPECT_EQ(deviation("decoder.blocks.0.mlp.fc1.bias"), 0);
  EXPECT_THROW(network.Initialise({.scheme = Initialisation::Scheme::kMimetic}, weights), Error);
}

}  // namespace
}  // namespace qkv::train
