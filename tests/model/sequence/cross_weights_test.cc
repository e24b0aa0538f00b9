// Cross-attention whose softmax is replaced: against models whose own softmax comes to the same, against direct sums,
// and token by token as all at once.
#include "qkv/nn/cross_weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <vector>

#include "qkv/io/safetensors.h"
#include "qkv/model/layout/bound_tensor.h"
#include "qkv/model/sequence/decoder.h"
#include "qkv/model/sequence/pair_generation.h"
#include "qkv/model/sequence/text_model.h"
#include "tests/support/difference.h"
#include "tests/support/errors.h"
#include "tests/support/goldens.h"
#include "tests/support/integers.h"

namespace qkv::model {
namespace {

using nn::CrossRule, nn::CrossWeights;

// What changes a decoder's tensor, by its name in the table.
using Change = std::function<void(const std::string& name, Tensor<double>& tensor)>;

// The decoder of a golden in double, and a random source of two texts of unequal lengths.
class Replaced : public testing::TestWithParam<std::string> {
 protected:
  static constexpr int64_t kB = 2, kN = 7, kT = 6;

  Replaced()
      : checkpoint_(TextCheckpoint::Open(TextGoldenFolder(GetParam()))), source_({kB, kN, config().block.width}) {
    Rng rng(3);
    for (double& x : source_.span()) x = rng.Normal();
    lengths_ = Tensor<int64_t>({kB});
    lengths_[0] = kN, lengths_[1] = 4;
    targets_ = Tensor<int32_t>({kB, kT});
    for (int32_t& id : targets_.span())
      id = static_cast<int32_t>(rng.Next() % static_cast<uint64_t>(config().vocabulary));
  }
  const SequenceConfig& config() const { return *checkpoint_.description.decoder; }
  int64_t heads() const { return config().block.cross->heads; }

  struct Result {
    Tensor<double> logits;
    std::vector<Tensor<double>> weights;  // of each block's cross-attention, [B, H, T, N]
  };

  SequenceModel<double> Build(const Change& change = {}) const {
    std::vector<Tensor<double>> values;
    std::vector<io::StoredTensor> stored;
    values.reserve(checkpoint_.decoder.size()), stored.reserve(checkpoint_.decoder.size());
    std::vector<BoundTensor> bound;
    for (const BoundTensor& tensor : checkpoint_.decoder) {
      values.push_back(Read<double>(tensor));
      if (change) change(tensor.spec.name, values.back());
      stored.push_back(io::Stored<double>(tensor.spec.name, values.back()));
      bound.push_back({tensor.spec, {&stored.back()}});
    }
    return SequenceModel<double>(config(), bound);
  }
  Result Run(const SequenceModel<double>& decoder, const CrossWeights& cross = {}) const {
    Arena arena;
    Source<double> source;
    source.weights = cross;
    decoder.ReadSource(source_, lengths_, arena, &source);
    EXPECT_EQ(source.weights, cross) << "reading keeps what replaces the softmax";
    Result result{Tensor<double>({kB, kT, config().outputs}), {}};
    SequenceOutputs<double> outputs{.logits = result.logits};
    for (int64_t block = 0; block < config().depth; ++block) {
      result.weights.emplace_back(Shape{kB, heads(), kT, kN});
      outputs.cross_attention.push_back({block, {0, kT, result.weights.back()}});
    }
    decoder.Forward(targets_, {.source = &source}, arena, outputs);
    return result;
  }
  // Queries of these heads (block, head; none: all) times a factor: their softmax at another temperature.
  Change Scaled(double factor, std::vector<std::pair<int64_t, int64_t>> which = {}) const {
    return [=, this](const std::string& name, Tensor<double>& tensor) {
      if (name.find("cross_attn.q.") == std::string::npos) return;
      const int64_t block = std::stoll(name.substr(7)), rows = tensor.dim(0) / heads(),
                    row = tensor.size() / tensor.dim(0);
      for (int64_t h = 0; h < heads(); ++h) {
        if (!which.empty() && std::ranges::find(which, std::pair(block, h)) == which.end()) continue;
        for (int64_t i = h * rows * row; i < (h + 1) * rows * row; ++i) tensor[i] *= factor;
      }
    };
  }

  TextCheckpoint checkpoint_;
  Tensor<double> source_;
  Tensor<int64_t> lengths_;
  Tensor<int32_t> targets_;
};
INSTANTIATE_TEST_SUITE_P(Goldens, Replaced, testing::Values("marian", "t5"),
                         [](const auto& name) { return name.param; });

TEST_P(Replaced, NothingByDefault) {
  const SequenceModel<double> decoder = Build();
  EXPECT_EQ(MaxDifference(Run(decoder).logits, Run(decoder, {.bandwidth = 3}).logits), 0);
}

// The whole decoder, against one whose queries are zero.
TEST_P(Replaced, UniformWeightsAreThoseOfNoQueries) {
  const Result expected = Run(Build(Scaled(0))), result = Run(Build(), {.rule = CrossRule::kUniform});
  EXPECT_LE(MaxDifference(expected.logits, result.logits), 1e-12 * std::max(1.0, MaxAbs(expected.logits)));
  for (int64_t n = 0; n < kN; ++n) EXPECT_EQ(*result.weights[1].view().at(1, 0, 2, n), n < 4 ? 0.25 : 0);
}

// … against one whose scores are so great that the softmax has one token left.
TEST_P(Replaced, AHardLookUpIsTheLimitOfTemperatureZero) {
  const Result expected = Run(Build(Scaled(1e9))), result = Run(Build(), {.rule = CrossRule::kHard});
  EXPECT_LE(MaxDifference(expected.logits, result.logits), 1e-11 * std::max(1.0, MaxAbs(expected.logits)));
  for (const Tensor<double>& weights : result.weights) {
    for (const double weight : weights.span()) EXPECT_TRUE(weight == 0 || weight == 1) << weight;
  }
}

TEST_P(Replaced, TemperatureDividesTheScores) {
  for (const double temperature : {0.25, 3.0}) {
    const Result expected = Run(Build(Scaled(1 / temperature))), result = Run(Build(), {.temperature = temperature});
    EXPECT_LE(MaxDifference(expected.logits, result.logits), 1e-12 * std::max(1.0, MaxAbs(expected.logits)));
  }
}

TEST_P(Replaced, HeadsOneByOne) {
  const std::vector<std::pair<int64_t, int64_t>> which = {{0, 2}, {1, 0}, {1, 1}};
  for (const auto& [rule, factor] : {std::pair{CrossRule::kUniform, 0.0}, {CrossRule::kHard, 1e9}}) {
    const Result expected = Run(Build(Scaled(factor, which))), result = Run(Build(), {.rule = rule, .heads = which});
    EXPECT_LE(MaxDifference(expected.logits, result.logits), 1e-11 * std::max(1.0, MaxAbs(expected.logits)));
  }
  const Result expected = Run(Build(Scaled(0.5, which))), result = Run(Build(), {.temperature = 2, .heads = which});
  EXPECT_LE(MaxDifference(expected.logits, result.logits), 1e-12 * std::max(1.0, MaxAbs(expected.logits)));
  EXPECT_GT(MaxDifference(expected.logits, Run(Build()).logits), 1e-6);
}

TEST_P(Replaced, AGaussianKnowsPlacesAlone) {
  constexpr double kH = 1.25, kSlope = 0.8;
  const Result result = Run(Build(), {.rule = CrossRule::kGaussian, .bandwidth = kH, .slope = kSlope});
  for (int64_t b = 0; b < kB; ++b) {
    for (int64_t t = 0; t < kT; ++t) {
      double sum = 0;
      const auto weight = [&](int64_t n) {
        const double distance = static_cast<double>(n) - kSlope * static_cast<double>(t);
        return std::exp(-distance * distance / (2 * kH * kH));
      };
      for (int64_t n = 0; n < lengths_[b]; ++n) sum += weight(n);
      for (int64_t n = 0; n < kN; ++n) {
        EXPECT_NEAR(*result.weights[0].view().at(b, 1, t, n), n < lengths_[b] ? weight(n) / sum : 0, 1e-14);
      }
    }
  }
  // Far outside of the source it is its last token, without a division by zero.
  const Result far = Run(Build(), {.rule = CrossRule::kGaussian, .bandwidth = 1e-3, .slope = 1e5});
  EXPECT_EQ(*far.weights[0].view().at(1, 0, 3, 3), 1);
}

// Each token alone, with the keys in the caches, several sequences and several beams of a source.
TEST_P(Replaced, CachedAsUncached) {
  const SequenceModel<double> decoder = Build();
  for (const CrossWeights& cross :
       {CrossWeights{.rule = CrossRule::kHard}, CrossWeights{.rule = CrossRule::kUniform, .heads = {{1, 1}}},
        CrossWeights{.rule = CrossRule::kGaussian, .bandwidth = 0.7, .slope = 1.5}, CrossWeights{.temperature = 0.3}}) {
    const Result expected = Run(decoder, cross);
    Arena arena;
    Source<double> source;
    source.weights = cross;
    decoder.ReadSource(source_, lengths_, arena, &source);
    constexpr int64_t kShare = 3;
    for (const int64_t share : {int64_t{1}, kShare}) {
      Decoder<double> cached(decoder, kB * share);
      std::vector<std::vector<int32_t>> prompts;
      for (int64_t i = 0; i < kB * share; ++i) prompts.push_back({*targets_.view().at(i / share, 0)});
      View<const double> logits = cached.Start(prompts, &source);
      for (int64_t t = 0;; ++t) {
        for (int64_t i = 0; i < kB * share; ++i) {
          for (int64_t v = 0; v < config().outputs; ++v) {
            ASSERT_NEAR(logits.row(i)[v], *expected.logits.view().at(i / share, t, v), 1e-10) << t;
          }
        }
        if (t + 1 == kT) break;
        std::vector<int32_t> next;
        for (int64_t i = 0; i < kB * share; ++i) next.push_back(*targets_.view().at(i / share, t + 1));
        logits = cached.Next(next);
      }
    }
  }
}

TEST(CrossWeights, RefusesWhatIsOutOfRange) {
  const auto said = [](const CrossWeights& weights) { return ErrorMessage([&] { weights.Validate(2, 3); }); };
  EXPECT_EQ(said({.heads = {{1, 2}}}), "");
  EXPECT_NE(said({.heads = {{2, 0}}}).find("no head 2.0; the decoder has blocks 0 to 1 with heads 0 to 2"),
            std::string::npos);
  EXPECT_NE(said({.bandwidth = 0}).find("bandwidth of 0"), std::string::npos);
  for (const double bandwidth : {double{NAN}, 1e-300, 1e-155, 5e-324, 1e155, 1e308}) {
    EXPECT_NE(said({.bandwidth = bandwidth}).find("bandwidth"), std::string::npos) << bandwidth;
  }
  EXPECT_EQ(said({.bandwidth = 1e-100}) + said({.bandwidth = 1e100}), "");
  EXPECT_NE(said({.temperature = 0}).find("hard"), std::string::npos);
  EXPECT_NE(said({.slope = -1}).find("per target token"), std::string::npos);
}

// Where people meet it: the texts that a model writes.
TEST(CrossWeights, ReachGeneration) {
  const TextModel model = TextModel::Load(TextGoldenFolder("marian"));
  const std::vector<std::vector<int32_t>> sources = {{5, 9, 33, 0}, {7, 8, 21, 44, 13, 0}};
  GenerationSettings settings{.max_tokens = 8, .min_tokens = 8, .ends = {0}};
  const auto write = [&](const CrossWeights& cross, int64_t beams) {
    settings.cross = cross, settings.beams = beams;
    std::vector<std::vector<int32_t>> texts;
    for (const Generated& one : GenerateFromSources(model, sources, 59, settings)) texts.push_back(one.tokens);
    return texts;
  };
  for (const int64_t beams : {1, 3}) {
    const auto soft = write({}, beams);
    EXPECT_EQ(write({.temperature = 1 - 1e-15}, beams), soft) << "the slow way is the fast one";
    EXPECT_THROW(write({.rule = CrossRule::kUniform, .heads = {{7, 0}}}, beams), Error);
    EXPECT_EQ(write({.rule = CrossRule::kUniform}, beams).size(), 2u);
    for (const double bandwidth : {1e-100, 1e100}) {
      for (const double slope : {0.0, 0.3, 1e6}) {
        EXPECT_EQ(write({.rule = CrossRule::kGaussian, .bandwidth = bandwidth, .slope = slope}, beams).size(), 2u);
      }
    }
  }
}

}  // namespace
}  // namespace qkv::model
