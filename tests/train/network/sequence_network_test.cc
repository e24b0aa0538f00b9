// Sequence models in training: gradients against differences of the loss, sequences alone and together, short ones,
// recomputed, on any number of threads; and answers equal to those of inference.
#include "qkv/train/network/sequence_network.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "qkv/core/parallel.h"
#include "qkv/model/sequence/sequence_model.h"
#include "qkv/train/network/initialise.h"
#include "tests/support/gradients.h"
#include "tests/support/sequences.h"
#include "tests/support/threads.h"
#include "tests/train/networks.h"

namespace qkv::train {
namespace {

using model::NamedSequence;
using model::SequenceConfig;

template <typename T>
bool SameBits(const Tensor<T>& a, const Tensor<T>& b) {
  return a.shape() == b.shape() && std::memcmp(a.data(), b.data(), sizeof(T) * static_cast<size_t>(a.size())) == 0;
}

// A model, its batch, and what comes of them.
template <typename T>
struct Trial {
  explicit Trial(const SequenceConfig& c, int64_t B = 3, int64_t N = 0)
      : network(c),
        weights(RandomWeights<T>(network.layout())),
        tokens(model::RandomTokens(c, B, N > 0 ? N : c.length)),
        dlogits(Cast<T>(Sampler(5).Normal<float>({B, tokens.dim(1), c.outputs}))),
        logits(dlogits.shape()),
        gradients({network.layout().size()}) {}

  void Forward() { network.Forward(weights, tokens, options, workspace, logits); }
  void Backward() { network.Backward(weights, dlogits, workspace, gradients); }
  double Loss() {
    Forward();
    return WeightedSum(dlogits, logits);
  }

  NetworkOptions options;
  SequenceNetwork<T> network;
  Tensor<T> weights;
  Tensor<int32_t> tokens;
  Tensor<T> dlogits, logits, gradients;
  typename SequenceNetwork<T>::Workspace workspace;
};

class SequenceNetworkTest : public testing::TestWithParam<NamedSequence> {};
INSTANTIATE_TEST_SUITE_P(Configs, SequenceNetworkTest, testing::ValuesIn(model::NamedSequences()),
                         [](const auto& test) { return test.param.name; });

TEST_P(SequenceNetworkTest, GradientIsThatOfTheLoss) {
  Trial<double> run(GetParam().config);
  run.Forward();
  run.Backward();
  ExpectGradient([&] { return run.Loss(); }, run.weights, run.gradients, "weights");
}

TEST_P(SequenceNetworkTest, GradientOfShortSequencesWithChancesIsThatOfTheLoss) {
  Trial<double> run(GetParam().config, 2, 4);
  run.options = {.dropout = 0.2, .attention_dropout = 0.3, .drop_path = 0.4, .seed = 9};
  run.Forward();
  run.Backward();
  ExpectGradient([&] { return run.Loss(); }, run.weights, run.gradients, "weights");
}

// Sums of rounding errors in another order, of entries up to some ten.
TEST_P(SequenceNetworkTest, SequencesDoNotKnowOfEachOther) {
  Trial<double> run(GetParam().config);
  run.options = {.dropout = 0.1, .attention_dropout = 0.1, .seed = 3};
  run.Forward();
  run.Backward();
  const int64_t N = run.tokens.dim(1);
  Tensor<double> gradients(run.gradients.shape()), logits({1, N, run.logits.dim(2)});
  SequenceNetwork<double>::Workspace workspace;
  for (int64_t b = 0; b < run.logits.dim(0); ++b) {
    NetworkOptions options = run.options;
    options.first_image = b;
    run.network.Forward(run.weights, run.tokens.view().slice(0, b, b + 1), options, workspace, logits);
    run.network.Backward(run.weights, run.dlogits.view().slice(0, b, b + 1), workspace, gradients);
    for (int64_t i = 0; i < logits.size(); ++i) ASSERT_NEAR(logits[i], run.logits.view().at(b)[i], 1e-12);
  }
  for (int64_t i = 0; i < gradients.size(); ++i) ASSERT_NEAR(gradients[i], run.gradients[i], 1e-11);
}

// The first tokens of a causal model are answered as if there were no others; those of others are not.
TEST_P(SequenceNetworkTest, OnlyACausalTokenDoesNotKnowOfThoseThatFollow) {
  const SequenceConfig& c = GetParam().config;
  Trial<double> whole(c), first(c, 3, c.length - 2);
  for (int64_t b = 0; b < 3; ++b) std::copy_n(whole.tokens.view().at(b), c.length - 2, first.tokens.view().at(b));
  whole.Forward(), first.Forward();
  double difference = 0;
  for (int64_t b = 0; b < 3; ++b) {
    for (int64_t i = 0; i < (c.length - 2) * c.outputs; ++i) {
      difference = std::max(difference, std::abs(whole.logits.view().at(b)[i] - first.logits.view().at(b)[i]));
    }
  }
  if (c.causal || c.depth == 0) {
    EXPECT_LE(difference, 1e-12);
  } else {
    EXPECT_GT(difference, 1e-3);
  }
}

TEST_P(SequenceNetworkTest, CheckpointsChangeNoBit) {
  Trial<float> kept(GetParam().config), recomputed(GetParam().config);
  recomputed.options.checkpointing = true;
  for (Trial<float>* run : {&kept, &recomputed}) {
    run->Forward();
    run->Backward();
  }
  EXPECT_TRUE(SameBits(kept.logits, recomputed.logits));
  EXPECT_TRUE(SameBits(kept.gradients, recomputed.gradients));
}

TEST_P(SequenceNetworkTest, ThreadsChangeNoBit) {
  const RestoreThreads restore;
  std::vector<Tensor<float>> gradients;
  for (const int threads : {1, 2, 3}) {
    SetNumThreads(threads);
    Trial<float> run(GetParam().config, 7);
    run.Forward();
    run.Backward();
    gradients.push_back(std::move(run.gradients));
  }
  EXPECT_TRUE(SameBits(gradients[0], gradients[1]));
  EXPECT_TRUE(SameBits(gradients[0], gradients[2]));
}

// From the last element to the first, each once, and final when it is told.
TEST_P(SequenceNetworkTest, TellsWhichGradientsAreFinished) {
  Trial<float> run(GetParam().config);
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

// Keys' biases add the same to all scores of a query, which the softmax takes away; turned, they do not.
TEST_P(SequenceNetworkTest, EveryTensorHasAGradientAndNothingElseHas) {
  Trial<double> run(GetParam().config);
  run.Forward();
  run.Backward();
  double outside = 0;
  for (const double g : run.gradients.span()) outside += std::abs(g);
  for (const Slot& slot : run.network.layout().slots()) {
    double sum = 0;
    for (int64_t i = 0; i < slot.shape.size(); ++i) sum += std::abs(run.gradients[slot.offset + i]);
    const bool of_keys = GetParam().config.positions != model::SequencePositions::kRotary &&
                         (slot.name.ends_with("key.bias") || slot.name.ends_with("k_norm.bias"));
    EXPECT_TRUE(of_keys || sum > 1e-9) << slot.name;
    outside -= sum;
  }
  EXPECT_NEAR(outside, 0, 1e-9);
}

// What inference folds, packs and computes in other orders: some hundred roundings of numbers of order one.
TEST_P(SequenceNetworkTest, InferenceAnswersTheSame) {
  const SequenceConfig& c = GetParam().config;
  for (const int64_t N : {c.length, c.length - 3}) {
    Trial<double> run(c, 2, N);
    run.Forward();
    const BoundWeights<double> tensors(c, run.network.layout(), run.weights);
    const Tensor<double> logits = model::SequenceModel<double>(c, tensors.bound).Logits(run.tokens);
    ASSERT_EQ(logits.shape(), run.logits.shape());
    for (int64_t i = 0; i < logits.size(); ++i) ASSERT_NEAR(logits[i], run.logits[i], 1e-12);
  }
}

TEST(SequenceNetworkErrors, SayWhatDoesNotFit) {
  Trial<float> run(model::SmallSequence());
  EXPECT_THROW(run.Backward(), Error);  // nothing went before
  run.Forward();
  run.Backward();
  EXPECT_THROW(run.Backward(), Error);  // its forward pass is used up
  const SequenceConfig& c = run.network.config();
  Tensor<int32_t> longer({3, c.length + 1});
  Tensor<float> more({3, c.length + 1, c.outputs}), few({run.weights.size() - 1});
  EXPECT_THROW(run.network.Forward(run.weights, longer, {}, run.workspace, more), Error);
  EXPECT_THROW(run.network.Forward(few, run.tokens, {}, run.workspace, run.logits), Error);
  EXPECT_THROW(run.network.Forward(run.weights, run.tokens, {}, run.workspace, more), Error);
  for (const int32_t token : {-1, static_cast<int32_t>(c.vocabulary)}) {
    run.tokens[5] = token;
    EXPECT_THROW(run.Forward(), Error) << token;
  }
}

// Embedded tokens vary as much as the sines and cosines that are added to them, and little where positions are learned.
TEST(SequenceInitialisation, TokensAreAsLargeAsTheirPlaces) {
  using model::SequencePositions;
  SequenceConfig c = model::SmallSequence();
  c.vocabulary = 200, c.block.width = 32, c.block.attention.head_width = 16, c.block.mlp.width = 40;
  for (const auto scheme : {Initialisation::Scheme::kTimm, Initialisation::Scheme::kMimetic}) {
    for (const auto positions : {SequencePositions::kNone, SequencePositions::kLearned, SequencePositions::kSinusoidal,
                                 SequencePositions::kRotary}) {
      c.positions = positions;
      const SequenceNetwork<float> network(c);
      Tensor<float> weights({network.layout().size()});
      Initialise<float>(c, network.layout(), {.scheme = scheme, .seed = 3}, weights);
      const auto deviation = [&](const char* name) {
        const View<float> tensor = network.layout().At(name, weights.view());
        double squares = 0;
        for (int64_t i = 0; i < tensor.size(); ++i) squares += static_cast<double>(tensor.data()[i]) * tensor.data()[i];
        return std::sqrt(squares / static_cast<double>(tensor.size()));
      };
      const bool learned = positions == SequencePositions::kLearned;
      const bool sines =
          positions == SequencePositions::kSinusoidal || (learned && scheme == Initialisation::Scheme::kMimetic);
      const double expected = sines ? std::sqrt(0.5) : 0.02;
      EXPECT_NEAR(deviation("token_embed.weight"), expected, 0.05 * expected);  // 6400 numbers: 4 deviations of theirs
      if (learned) {
        EXPECT_NEAR(deviation("pos_embed"), expected, 0.2 * expected);  // 224 numbers
      }
    }
  }
}

}  // namespace
}  // namespace qkv::train
