// The certificate against layers that are run: what it calls exact is exact, what it bounds keeps the bound, and what
// it calls impossible does give another attention.
#include "qkv/lab/certificate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "qkv/algebra/gauge.h"
#include "qkv/algebra/merge.h"
#include "qkv/algebra/parts.h"
#include "qkv/algebra/rope.h"
#include "qkv/algebra/spectrum.h"
#include "qkv/algebra/split.h"
#include "qkv/algebra/truncate.h"
#include "qkv/algebra/values.h"
#include "tests/algebra/support.h"
#include "tests/support/goldens.h"

namespace qkv::lab {
namespace {

using algebra::Multiply;
using algebra::Projection;
using algebra::QueryKey;
using algebra::Terms;
using algebra::Transposed;
using Matrix = Tensor<double>;
using Norm = AttentionTraits::Norm;
using Weights = inspect::AttentionWeights;

constexpr int64_t kN = 9, kD = 12, kHeads = 3, kE = 4;
constexpr double kSeen = 1e-4;  // what differs by more than this differs

struct Biases {
  bool query = true, key = true, value = true, beta = true;
};

Matrix Add(const Matrix& a, const Matrix& b) {
  Matrix sum = a.Clone();
  for (int64_t i = 0; i < sum.size(); ++i) sum[i] += b[i % b.size()];
  return sum;
}

// A layer, its surroundings and tokens: run step by step in double, with each step replaceable.
class Layer {
 public:
  Layer(const AttentionTraits& traits_, const Biases& biases, uint64_t seed) : traits(traits_), sampler_(seed) {
    const double stddev = 1 / std::sqrt(static_cast<double>(kD));
    weights.heads = kHeads;
    weights.scale = 1 / std::sqrt(static_cast<double>(kE));
    weights.eps = 1e-6;
    const auto projection = [&](bool bias) {
      Projection p{sampler_.Normal<double>({kD, kD}, 0, stddev), sampler_.Normal<double>({kD}, 0, 0.5)};
      if (!bias) p.bias = Matrix({kD});  // stored zeros are no bias
      return p;
    };
    weights.query = projection(biases.query), weights.key = projection(biases.key);
    weights.value = projection(biases.value), weights.output = projection(true);
    hidden = sampler_.Normal<double>({kN, kD}, 0.5, 2);
    if (traits.norm == Norm::kNone) return;
    weights.gamma = sampler_.Normal<double>({kD}, 1, 0.3);
    weights.beta = biases.beta ? sampler_.Normal<double>({kD}, 0, 0.3) : Matrix({kD});
  }

  // What the norm gives before gamma and beta, and after.
  Matrix Normalised() const {
    if (traits.norm == Norm::kLayerNorm) return algebra::Normalise(hidden, weights.eps);
    Matrix x = hidden.Clone();
    for (int64_t i = 0; i < kN && traits.norm == Norm::kRmsNorm; ++i) {
      double squares = 0;
      for (int64_t d = 0; d < kD; ++d) squares += std::pow(x[i * kD + d], 2) / kD;
      for (int64_t d = 0; d < kD; ++d) x[i * kD + d] /= std::sqrt(squares + weights.eps);
    }
    return x;
  }
  Matrix Tokens() const {
    Matrix x = Normalised();
    for (int64_t i = 0; i < x.size() && traits.norm != Norm::kNone; ++i) {
      x[i] = x[i] * weights.gamma[i % kD] + weights.beta[i % kD];
    }
    return x;
  }

  QueryKey Pair(int64_t h) const {
    const auto own = [&](const Projection& all) {
      const auto head = algebra::Head(all, h, kHeads);
      return Projection{algebra::Copy(head.weight), algebra::Copy(head.bias)};
    };
    return {own(weights.query), own(weights.key)};
  }

  // Queries or keys as they meet: normalised and turned, where the layer does so.
  Matrix Side(const Projection& p, const Matrix& x) const {
    Matrix y({kN, p.weight.dim(0)});
    for (int64_t i = 0; i < kN; ++i) {
      const Matrix token = algebra::Copy(x.view().slice(0, i, i + 1));
      Matrix row = algebra::Project(p, token);
      if (traits.qk_norm) row = algebra::Normalise(row, 1e-6);
      if (traits.rope > 0) {  // R(i) of the features, as a projection of the identity
        Matrix identity({row.dim(1), row.dim(1)});
        for (int64_t e = 0; e < row.dim(1); ++e) identity[e * row.dim(1) + e] = 1;
        const auto turn =
            algebra::Rotate({identity, {}}, {.width = std::min(traits.rope, row.dim(1))}, static_cast<double>(i));
        row = Multiply(row, Transposed(turn.weight));
      }
      std::ranges::copy(row.span(), y.data() + i * y.dim(1));
    }
    return y;
  }
  Matrix Logits(const QueryKey& pair, const Matrix& x) const {
    Matrix S = Multiply(Side(pair.query, x), Transposed(Side(pair.key, x)));
    for (double& s : S.span()) s *= weights.scale;
    return S;
  }
  Matrix MergedLogits(const algebra::Merged& merged, const Matrix& x) const {
    return algebra::Logits(merged, x, x, weights.scale);
  }

  // From logits to the weights that sum the values.
  Matrix Attention(const Matrix& logits) const {
    Matrix A = logits.Clone();
    for (int64_t i = 0; i < kN; ++i) {
      double* row = A.data() + i * kN;
      double sum = (traits.sink ? std::exp(0.7) : 0) + (traits.added_keys ? 1 : 0);
      for (int64_t j = 0; j < kN; ++j) {
        if (traits.soft_cap) row[j] = 2 * std::tanh(row[j] / 2);
        row[j] = traits.not_softmax ? 1 / (1 + std::exp(-row[j])) : std::exp(row[j]);
        sum += row[j];
      }
      for (int64_t j = 0; j < kN; ++j) {
        if (!traits.not_softmax) row[j] /= sum;
        if (traits.dropout) row[j] *= (3 * i + j) % 4 == 0 ? 0 : 4.0 / 3;
      }
    }
    return A;
  }
  Matrix Attention(int64_t h) const { return Attention(Logits(Pair(h), Tokens())); }

  Matrix Output(const std::vector<Matrix>& sums) const {  // of each head, [N, E]
    Matrix joined({kN, kD});
    for (int64_t h = 0; h < kHeads; ++h) {
      for (int64_t i = 0; i < kN; ++i) {
        std::copy_n(sums[static_cast<size_t>(h)].data() + i * kE, kE, joined.data() + i * kD + h * kE);
      }
    }
    if (traits.output_norm) joined = algebra::Normalise(joined, 1e-6);
    return algebra::Project(weights.output, joined);
  }
  Matrix Output() const {
    const Matrix values = algebra::Project(weights.value, Tokens());
    std::vector<Matrix> sums;
    for (int64_t h = 0; h < kHeads; ++h) {
      sums.push_back(Multiply(Attention(h), values.view().slice(1, h * kE, (h + 1) * kE)));
    }
    return Output(sums);
  }

  Matrix Gauge() { return sampler_.Normal<double>({kE, kE}); }

  // Rounding: some twenty products one after the other, of norms that grow with the tokens' and the weights'.
  double Tolerance() const {
    double norm = std::pow(algebra::TokenNorm(Tokens()), 2);
    for (const auto* p : {&weights.query, &weights.key, &weights.value, &weights.output}) {
      norm *= 1 + algebra::SideNorm(*p);
    }
    return algebra::StepTolerance(20, kN + kD, norm);
  }

  AttentionTraits traits;
  Weights weights;
  Matrix hidden;

 private:
  Sampler sampler_;
};

// --- What each rewriting makes of the layer -----------------------------------------------------------------------

struct Result {
  Matrix logits, attention;  // of a head; or, for rewritings of values, the outputs in both
};

Result MakeResult(const Layer& layer, Matrix logits) {
  Matrix attention = layer.Attention(logits);
  return {std::move(logits), std::move(attention)};
}

algebra::Merged MatrixAlone(const algebra::QueryKeyView& pair) {
  return {.matrix = algebra::Merge(pair, Terms::kExact).matrix};
}

// gamma and beta in the weights, which then read what is normalised only.
QueryKey Folded(const Layer& layer, const QueryKey& pair) {
  if (layer.traits.norm == Norm::kNone)
    return {{pair.query.weight.Clone(), pair.query.bias.Clone()}, {pair.key.weight.Clone(), pair.key.bias.Clone()}};
  const auto fold = [&](const Projection& p) {
    return algebra::FoldLayerNorm(p, layer.weights.gamma, layer.weights.beta);
  };
  return {fold(pair.query), fold(pair.key)};
}

Result MakeOutput(Matrix output) { return {output.Clone(), std::move(output)}; }

Result MergedOutputs(const Layer& layer) {
  const Matrix x = layer.Tokens();
  Matrix out({kN, kD}), bias = layer.weights.output.bias.Clone();
  for (int64_t h = 0; h < kHeads; ++h) {
    const auto merged = algebra::MergeOutput(algebra::Head(layer.weights.value, h, kHeads),
                                             algebra::OutputHead(layer.weights.output.weight, h, kHeads));
    out = Add(out, Multiply(Multiply(layer.Attention(h), x), Transposed(merged.matrix)));
    bias = Add(bias, merged.bias);
  }
  return MakeOutput(Add(out, bias));
}

Result FromKeys(const Layer& layer) {
  const auto made = algebra::MakeValuesFromKeys(layer.weights.key, layer.weights.value);
  Matrix keys({kN, kD});
  for (int64_t h = 0; h < kHeads; ++h) {
    const Matrix head = layer.Side(layer.Pair(h).key, layer.Tokens());
    for (int64_t i = 0; i < kN; ++i) std::copy_n(head.data() + i * kE, kE, keys.data() + i * kD + h * kE);
  }
  const Matrix values = algebra::Project(made.from_keys, keys);
  std::vector<Matrix> sums;
  for (int64_t h = 0; h < kHeads; ++h) {
    sums.push_back(Multiply(layer.Attention(h), values.view().slice(1, h * kE, (h + 1) * kE)));
  }
  return MakeOutput(layer.Output(sums));
}

Result Rewritten(Layer& layer, const Certificate& c, int64_t rank) {
  const int64_t h = std::max<int64_t>(c.head, 0);
  const Matrix x = layer.Tokens();
  QueryKey pair = layer.Pair(h);
  const bool softmax = c.verdict == Exactness::kAfterSoftmax || !(layer.traits.soft_cap || layer.traits.sink ||
                                                                  layer.traits.added_keys || layer.traits.not_softmax);
  switch (c.rewriting) {
    case Rewriting::kMerge:
      return MakeResult(layer, layer.MergedLogits(MatrixAlone(pair), x));
    case Rewriting::kMergeSoftmax:
      return MakeResult(layer, layer.MergedLogits(algebra::Merge(pair, Terms::kSoftmax), x));
    case Rewriting::kMergeExact:
      return MakeResult(layer, layer.MergedLogits(algebra::Merge(pair, Terms::kExact), x));
    case Rewriting::kDropKeyBias:
      pair.key.bias = Matrix({kE});
      return MakeResult(layer, layer.Logits(pair, x));
    case Rewriting::kSplit:
      return MakeResult(layer, layer.Logits(algebra::Split(pair, Terms::kExact), x));
    case Rewriting::kRegauge:
      return MakeResult(layer, layer.Logits(algebra::Regauge(pair, layer.Gauge()), x));
    case Rewriting::kTruncate:
      return MakeResult(layer,
                        layer.Logits(algebra::Truncate(pair, rank, softmax ? Terms::kSoftmax : Terms::kExact), x));
    case Rewriting::kFoldNorm:
      return MakeResult(layer, layer.Logits(Folded(layer, pair), layer.Normalised()));
    case Rewriting::kMergeFolded:
      return MakeResult(layer, layer.MergedLogits(MatrixAlone(Folded(layer, pair)), layer.Normalised()));
    case Rewriting::kCentre: {
      const QueryKey folded = Folded(layer, pair);
      return MakeResult(layer,
                        layer.Logits({algebra::Centre(folded.query), algebra::Centre(folded.key)}, layer.Normalised()));
    }
    case Rewriting::kMergeOutput:
      return MergedOutputs(layer);
    case Rewriting::kValuesFromKeys:
      return FromKeys(layer);
    case Rewriting::kShare: {
      const Matrix shared =
          algebra::FitShared(algebra::Augment(pair.query), algebra::Augment(pair.key), kE).weight.Clone();
      const auto side = [&] {
        Projection p{Matrix({kE, kD}), Matrix({kE})};
        for (int64_t e = 0; e < kE; ++e) {
          std::copy_n(shared.data() + e * (kD + 1), kD, p.weight.data() + e * kD);
          p.bias[e] = shared[e * (kD + 1) + kD];
        }
        return p;
      };
      return MakeResult(layer, layer.Logits({side(), side()}, x));
    }
  }
  return {};
}

// The greatest total variation of a row.
double Variation(const Matrix& a, const Matrix& b) {
  double greatest = 0;
  for (int64_t i = 0; i < a.dim(0); ++i) {
    double sum = 0;
    for (int64_t j = 0; j < a.dim(1); ++j) sum += std::abs(a[i * a.dim(1) + j] - b[i * a.dim(1) + j]) / 2;
    greatest = std::max(greatest, sum);
  }
  return greatest;
}

// The certificate of the layer, each statement held against what happens.
void ExpectTrue(Layer& layer, const std::string& what, int64_t rank = 2) {
  SCOPED_TRACE(what);
  for (const Certificate& c : Certify(layer.weights, layer.traits, rank)) {
    SCOPED_TRACE(fmt::format("head {}: {}: {}", c.head, Name(c.rewriting), Name(c.verdict)));
    const bool values = c.rewriting == Rewriting::kMergeOutput || c.rewriting == Rewriting::kValuesFromKeys;
    const int64_t h = std::max<int64_t>(c.head, 0);
    const Result before =
        values ? MakeOutput(layer.Output()) : MakeResult(layer, layer.Logits(layer.Pair(h), layer.Tokens()));
    const Result after = Rewritten(layer, c, rank);
    double tolerance = layer.Tolerance();
    if (c.rewriting == Rewriting::kValuesFromKeys && c.verdict == Exactness::kExact) tolerance *= c.condition;
    if (c.rewriting == Rewriting::kRegauge || layer.traits.qk_norm) tolerance *= 1e3;  // conditions of the samples
    const double logits = MaxDifference(after.logits, before.logits);
    const double attention = MaxDifference(after.attention, before.attention);
    EXPECT_EQ(c.obstructions.empty(), c.verdict == Exactness::kExact || c.verdict == Exactness::kApproximate);
    switch (c.verdict) {
      case Exactness::kExact:
        EXPECT_LE(logits, tolerance);
        EXPECT_LE(attention, tolerance);
        break;
      case Exactness::kAfterSoftmax:
        EXPECT_GT(logits, kSeen);
        EXPECT_LE(attention, tolerance);
        break;
      case Exactness::kApproximate: {
        EXPECT_GT(attention, kSeen);
        EXPECT_GT(c.weight_error, 0);
        EXPECT_LE(c.weight_error, 1.5);
        const bool constants = c.rewriting == Rewriting::kTruncate && std::isfinite(c.attention_bound);
        EXPECT_LE(constants ? algebra::MaxSpread(after.logits, before.logits) / 2 : logits, c.logit_bound * (1 + 1e-9));
        if (std::isfinite(c.attention_bound) && !layer.traits.dropout) {
          EXPECT_LE(Variation(after.attention, before.attention), c.attention_bound * (1 + 1e-9));
        }
        break;
      }
      case Exactness::kImpossible:
        EXPECT_GT(attention, kSeen);
        break;
    }
  }
}

struct Surrounding {
  const char* name;
  AttentionTraits traits;
};

std::vector<Surrounding> Surroundings() {
  return {{"plain", {}},
          {"RMSNorm", {.norm = Norm::kRmsNorm}},
          {"no norm", {.norm = Norm::kNone}},
          {"QK-norm", {.qk_norm = true}},
          {"RoPE", {.rope = kE}},
          {"RoPE on half", {.rope = kE / 2}},
          {"soft cap", {.soft_cap = true}},
          {"sink", {.sink = true}},
          {"added keys", {.added_keys = true}},
          {"sigmoid", {.not_softmax = true}},
          {"dropout", {.dropout = true}},
          {"output norm", {.output_norm = true}},
          {"sink and RoPE", {.rope = kE, .sink = true}}};
}

TEST(Certificate, IsTrueOfEveryLayerWithAnyBiases) {
  uint64_t seed = 1;
  for (const auto& [name, traits] : Surroundings()) {
    for (int bits = 0; bits < 16; ++bits) {
      const Biases biases{(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0, (bits & 8) != 0};
      if (biases.beta && traits.norm != Norm::kLayerNorm) continue;
      Layer layer(traits, biases, seed++);
      ExpectTrue(layer, fmt::format("{}, biases {}{}{}{}", name, biases.query ? "q" : "", biases.key ? "k" : "",
                                    biases.value ? "v" : "", biases.beta ? "β" : ""));
    }
  }
}

const Certificate& Find(const std::vector<Certificate>& all, Rewriting rewriting, int64_t head) {
  return *std::ranges::find_if(all, [&](const auto& c) { return c.rewriting == rewriting && c.head == head; });
}

using Names = std::vector<Obstruction>;

// What stands in the way is named, all of it.
TEST(Certificate, NamesWhatObstructs) {
  struct Case {
    AttentionTraits traits;
    Biases biases;
    Rewriting rewriting;
    Names expected;
  };
  using enum Obstruction;
  const Case cases[] = {
      {{}, {}, Rewriting::kMerge, {kQueryBias}},
      {{}, {.query = false}, Rewriting::kMerge, {kKeyBias}},
      {{}, {.query = false, .key = false}, Rewriting::kMergeFolded, {kBeta}},
      {{}, {}, Rewriting::kMergeFolded, {kQueryBias, kBeta}},
      {{.rope = 4}, {}, Rewriting::kMergeExact, {kRope}},
      {{.qk_norm = true, .rope = 4}, {}, Rewriting::kRegauge, {kQkNorm, kRope}},
      {{.soft_cap = true}, {}, Rewriting::kDropKeyBias, {kKeyBias, kSoftCap}},
      {{.sink = true}, {}, Rewriting::kMergeSoftmax, {kKeyBias, kSink}},
      {{.added_keys = true}, {}, Rewriting::kMergeOutput, {kValueBias, kAddedKeys}},
      {{.not_softmax = true}, {}, Rewriting::kMergeSoftmax, {kKeyBias, kNotSoftmax}},
      {{.dropout = true}, {}, Rewriting::kMergeOutput, {kValueBias, kDropout}},
      {{.output_norm = true}, {}, Rewriting::kMergeOutput, {kOutputNorm}},
      // Several at once, each whole.
      {{.sink = true}, {}, Rewriting::kMerge, {kQueryBias, kKeyBias, kSink}},
      {{.rope = 4, .soft_cap = true}, {}, Rewriting::kMergeFolded, {kRope, kQueryBias, kBeta, kKeyBias, kSoftCap}},
      {{.sink = true, .dropout = true, .output_norm = true},
       {},
       Rewriting::kMergeOutput,
       {kOutputNorm, kValueBias, kSink, kDropout}},
  };
  for (const Case& c : cases) {
    const Layer layer(c.traits, c.biases, 5);
    EXPECT_EQ(Find(Certify(layer.weights, layer.traits, 2), c.rewriting, 0).obstructions, c.expected)
        << Name(c.rewriting);
  }
  const Layer rms({.norm = Norm::kRmsNorm}, {.beta = false}, 5), bare({.norm = Norm::kNone}, {.beta = false}, 5);
  EXPECT_EQ(Find(Certify(rms.weights, rms.traits, 2), Rewriting::kCentre, Certificate::kAllHeads).obstructions,
            Names{kRmsNorm});
  EXPECT_EQ(Find(Certify(bare.weights, bare.traits, 2), Rewriting::kCentre, Certificate::kAllHeads).obstructions,
            Names{kNoNorm});
}

TEST(Certificate, KeysThatForgetGiveNoValues) {
  Layer layer({}, {}, 3);
  std::copy_n(layer.weights.key.weight.data(), kD, layer.weights.key.weight.data() + kD);  // two equal rows
  const auto verdict = [&] {
    return Find(Certify(layer.weights, layer.traits, 2), Rewriting::kValuesFromKeys, Certificate::kAllHeads);
  };
  EXPECT_EQ(verdict().obstructions, Names{Obstruction::kSingular});
  // Heads that together are narrower than the tokens.
  layer.weights.key = {Tensor<double>({kHeads * 2, kD}), Tensor<double>({kHeads * 2})};
  layer.weights.query = {Tensor<double>({kHeads * 2, kD}), Tensor<double>({kHeads * 2})};
  EXPECT_EQ(verdict().obstructions, Names{Obstruction::kNotSquare});
}

TEST(Certificate, KeysThatForgetAreNamedBesideWhatStandsBetween) {
  Layer layer({.qk_norm = true, .rope = 4}, {}, 3);
  std::copy_n(layer.weights.key.weight.data(), kD, layer.weights.key.weight.data() + kD);
  const Certificate c =
      Find(Certify(layer.weights, layer.traits, 2), Rewriting::kValuesFromKeys, Certificate::kAllHeads);
  EXPECT_EQ(c.obstructions, (Names{Obstruction::kQkNorm, Obstruction::kRope, Obstruction::kSingular}));
}

// A pair that is shared but for 1e-8 of it is not shared: the certificate says how far, and keeps its bound.
TEST(Certificate, AnAlmostSharedPairIsNotExact) {
  Layer layer({}, {}, 8);
  layer.weights.query = {layer.weights.key.weight.Clone(), layer.weights.key.bias.Clone()};
  Sampler sampler(9);
  for (double& w : layer.weights.query.weight.span()) w *= 1 + 1e-8 * sampler.rng().Uniform();
  for (int64_t head = 0; head < kHeads; ++head) {
    const Certificate c = Find(Certify(layer.weights, layer.traits, 2), Rewriting::kShare, head);
    ASSERT_EQ(c.verdict, Exactness::kApproximate);
    EXPECT_GT(c.weight_error, 1e-10);
    EXPECT_LT(c.weight_error, 1e-7);
    const Matrix before = layer.Logits(layer.Pair(head), layer.Tokens()), after = Rewritten(layer, c, 2).logits;
    EXPECT_GT(MaxDifference(after, before), 0);
    EXPECT_LE(MaxDifference(after, before), c.logit_bound + layer.Tolerance());
  }
}

TEST(Certificate, ATruncationOfFullRankAndAnAlreadySharedPairAreExact) {
  Layer layer({}, {.key = false}, 8);
  ExpectTrue(layer, "full rank", kE);
  EXPECT_EQ(Find(Certify(layer.weights, layer.traits, kE), Rewriting::kTruncate, 0).verdict, Exactness::kExact);
  layer.weights.query = {layer.weights.key.weight.Clone(), layer.weights.key.bias.Clone()};
  EXPECT_EQ(Find(Certify(layer.weights, layer.traits, 2), Rewriting::kShare, 1).verdict, Exactness::kExact);
}

TEST(Certificate, TheBoundsFallWithTheRank) {
  const Layer layer({}, {}, 4);
  double error = INFINITY, bound = INFINITY;
  for (int64_t rank = 1; rank < kE; ++rank) {
    const Certificate c = Find(Certify(layer.weights, layer.traits, rank), Rewriting::kTruncate, 0);
    EXPECT_LT(c.weight_error, error);
    EXPECT_LT(c.logit_bound, bound);
    error = c.weight_error, bound = c.logit_bound;
  }
  EXPECT_THROW(Certify(layer.weights, layer.traits, 0), Error);
}

// Two entries whose logits move apart reach it, any others stay below.
TEST(AttentionBound, IsTheBestThereIs) {
  for (const double delta : {0.01, 0.3, 2.0}) {
    const Matrix a = algebra::ExactSoftmax([&] {
      Matrix S({1, 2});
      S[0] = -delta, S[1] = delta;
      return S;
    }());
    const Matrix b = algebra::ExactSoftmax([&] {
      Matrix S({1, 2});
      S[0] = delta, S[1] = -delta;
      return S;
    }());
    EXPECT_NEAR(Variation(a, b), AttentionBound(2 * delta), 1e-12);
    Sampler sampler(7);
    for (int i = 0; i < 100; ++i) {
      Matrix S = sampler.Normal<double>({1, 5}, 0, 2), R = S.Clone();
      for (double& x : R.span()) x += delta * (2 * sampler.rng().Uniform() - 1);
      EXPECT_LE(Variation(algebra::ExactSoftmax(S), algebra::ExactSoftmax(R)), AttentionBound(delta));
    }
  }
}

// --- Whole models -------------------------------------------------------------------------------------------------

std::vector<Certificate> OfGolden(const std::string& name) {
  return Certify(model::Checkpoint::Open(GoldenFolder(name)));
}

TEST(Certificate, OfTheFamilies) {
  using enum Obstruction;
  // timm: a bias, and beta.
  const auto timm = OfGolden("timm_vit");
  EXPECT_EQ(Find(timm, Rewriting::kMerge, 0).obstructions, Names{kQueryBias});
  EXPECT_EQ(Find(timm, Rewriting::kMergeSoftmax, 0).verdict, Exactness::kAfterSoftmax);
  EXPECT_EQ(Find(timm, Rewriting::kMergeExact, 0).verdict, Exactness::kExact);
  EXPECT_EQ(Find(timm, Rewriting::kMergeOutput, 0).verdict, Exactness::kExact);
  // vit-pytorch: no bias, but beta.
  const auto vit_pytorch = OfGolden("vit_pytorch_vit");
  EXPECT_EQ(Find(vit_pytorch, Rewriting::kMerge, 0).verdict, Exactness::kExact);
  EXPECT_EQ(Find(vit_pytorch, Rewriting::kMergeFolded, 0).obstructions, Names{kBeta});
  // Norms on queries and keys.
  const auto normed = OfGolden("timm_qk_norm");
  for (const Rewriting rewriting : {Rewriting::kMerge, Rewriting::kSplit, Rewriting::kTruncate, Rewriting::kShare}) {
    EXPECT_EQ(Find(normed, rewriting, 0).verdict, Exactness::kImpossible);
    EXPECT_EQ(Find(normed, rewriting, 0).obstructions.front(), kQkNorm);
  }
  // Half of the queries' and keys' features, not of the values'.
  const auto low_rank = model::Checkpoint::Open(GoldenFolder("timm_kind_low_rank"));
  const int64_t r = low_rank.description.config.block.attention.query_width();
  ASSERT_NE(r, low_rank.description.config.block.attention.head_width);
  EXPECT_EQ(HalfRank(low_rank.description.config.block.attention), r / 2);
  EXPECT_EQ(Find(Certify(low_rank), Rewriting::kTruncate, 0).weight_error,
            Find(Certify(low_rank, r / 2), Rewriting::kTruncate, 0).weight_error);
  EXPECT_EQ(Find(OfGolden("timm_scale_norms"), Rewriting::kMergeOutput, 0).obstructions, Names{kOutputNorm});
}

}  // namespace
}  // namespace qkv::lab
