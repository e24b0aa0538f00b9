#include "qkv/lab/certificate.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "qkv/algebra/fold.h"
#include "qkv/algebra/parts.h"
#include "qkv/algebra/spectrum.h"
#include "qkv/core/parallel.h"

namespace qkv::lab {
namespace {

using algebra::ProjectionView;
using Matrix = Tensor<double>;
using Obstructions = std::vector<Obstruction>;

constexpr std::pair<Rewriting, std::string_view> kRewritings[] = {{Rewriting::kMerge, "merge without bias"},
                                                                  {Rewriting::kMergeSoftmax, "merge with u"},
                                                                  {Rewriting::kMergeExact, "merge with all bias terms"},
                                                                  {Rewriting::kDropKeyBias, "drop the keys' bias"},
                                                                  {Rewriting::kSplit, "split balanced"},
                                                                  {Rewriting::kRegauge, "change of gauge"},
                                                                  {Rewriting::kTruncate, "truncate"},
                                                                  {Rewriting::kFoldNorm, "fold the norm"},
                                                                  {Rewriting::kMergeFolded, "fold, merge without bias"},
                                                                  {Rewriting::kCentre, "fold, centre"},
                                                                  {Rewriting::kMergeOutput, "merge values and output"},
                                                                  {Rewriting::kValuesFromKeys, "values from keys"},
                                                                  {Rewriting::kShare, "share W_Q = W_K"}};
constexpr std::pair<Exactness, std::string_view> kExactness[] = {{Exactness::kExact, "exact"},
                                                                 {Exactness::kAfterSoftmax, "exact after softmax only"},
                                                                 {Exactness::kApproximate, "approximate"},
                                                                 {Exactness::kImpossible, "impossible"}};
constexpr std::pair<Obstruction, std::string_view> kObstructions[] = {
    {Obstruction::kQueryBias, "bias of queries"},
    {Obstruction::kKeyBias, "bias of keys"},
    {Obstruction::kValueBias, "bias of values"},
    {Obstruction::kBeta, "LayerNorm's beta"},
    {Obstruction::kRmsNorm, "RMSNorm keeps the mean"},
    {Obstruction::kNoNorm, "no LayerNorm"},
    {Obstruction::kQkNorm, "QK-norm"},
    {Obstruction::kRope, "RoPE"},
    {Obstruction::kSoftCap, "soft-cap"},
    {Obstruction::kSink, "attention sink"},
    {Obstruction::kAddedKeys, "added keys"},
    {Obstruction::kNotSoftmax, "no softmax"},
    {Obstruction::kDropout, "attention dropout"},
    {Obstruction::kOutputNorm, "norm before the output projection"},
    {Obstruction::kNotSquare, "the keys of all heads are not as wide as the tokens"},
    {Obstruction::kSingular, "W_K is singular"},
    {Obstruction::kStream, "the residual stream goes through the norm too"},
    {Obstruction::kTwoWidths, "queries' and keys' tokens have different widths"}};

template <typename E, size_t n>
std::string_view FindName(const std::pair<E, std::string_view> (&names)[n], E value) {
  return std::ranges::find(names, value, &std::pair<E, std::string_view>::first)->second;
}

bool IsZero(View<const double> v) {
  for (int64_t i = 0; i < v.size(); ++i) {
    if (*v.at(i) != 0) return false;
  }
  return true;
}

double Norm(const Tensor<double>& matrix) {
  double squares = 0;
  for (const double x : matrix.span()) squares += x * x;
  return std::sqrt(squares);
}

Obstructions Holding(std::initializer_list<std::pair<bool, Obstruction>> all) {
  Obstructions there;
  for (const auto& [holds, obstruction] : all) {
    if (holds) there.push_back(obstruction);
  }
  return there;
}

// Obstructions that follow from the traits alone.
struct Surroundings {
  // Between the projections and their product: logits are not of the form x_i M x_j.
  Obstructions between;
  // After the logits: the attention depends on constants along a row of logits.
  Obstructions beyond;
  // The attention weights of a row do not sum to 1.
  Obstructions sums;

  explicit Surroundings(const AttentionTraits& t)
      : between(ScoreObstructions(t)),
        beyond(SoftmaxObstructions(t)),
        sums(Holding({{t.sink, Obstruction::kSink},
                      {t.added_keys, Obstruction::kAddedKeys},
                      {t.not_softmax, Obstruction::kNotSoftmax},
                      {t.dropout, Obstruction::kDropout}})) {}
};

Certificate Exact() { return {}; }
Certificate Impossible(Obstructions obstructions) {
  return {.verdict = Exactness::kImpossible, .obstructions = std::move(obstructions)};
}
// Union without duplicates: beta may obstruct both sides.
Obstructions Join(Obstructions a, const Obstructions& b) {
  for (const Obstruction obstruction : b) {
    if (std::ranges::find(a, obstruction) == a.end()) a.push_back(obstruction);
  }
  return a;
}
// Impossible, or exact without obstructions.
Certificate ExactUnless(Obstructions obstructions) {
  return obstructions.empty() ? Exact() : Impossible(std::move(obstructions));
}

// Without the terms in b_K (note 2), which are constant along a row of logits.
Certificate WithoutKeyTerms(const Obstructions& key_terms, const Surroundings& around) {
  if (key_terms.empty()) return Exact();
  if (!around.beyond.empty()) return Impossible(Join(key_terms, around.beyond));
  return {.verdict = Exactness::kAfterSoftmax, .obstructions = key_terms};
}

// M in place of a pair, without biases.
Certificate MergeWithoutBias(const Obstructions& query_terms, const Obstructions& key_terms,
                             const Surroundings& around) {
  const Certificate keys = WithoutKeyTerms(key_terms, around);
  const Obstructions against = Join(around.between, query_terms);
  if (against.empty()) return keys;
  return Impossible(keys.verdict == Exactness::kImpossible ? Join(against, keys.obstructions) : against);
}

// One head, and the bound of its input tokens.
class HeadCertificates {
 public:
  HeadCertificates(const inspect::AttentionWeights& layer, const AttentionTraits& traits, const Surroundings& around,
                   int64_t head)
      : layer_(layer),
        traits_(traits),
        around_(around),
        query_(algebra::Head(layer.query, head, layer.heads)),
        key_(algebra::Head(layer.key, head, layer.heads)),
        value_(algebra::Head(layer.value, head, layer.heads)),
        query_bias_(Holding({{!IsZero(query_.bias), Obstruction::kQueryBias}})),
        key_bias_(Holding({{!IsZero(key_.bias), Obstruction::kKeyBias}})) {}

  Certificate Merge() const { return MergeWithoutBias(query_bias_, key_bias_, around_); }
  Certificate MergeSoftmax() const { return MergeWithoutBias({}, key_bias_, around_); }
  Certificate WhereScoresAreLinear() const { return ExactUnless(around_.between); }
  Certificate DropKeyBias() const { return key_bias_.empty() ? Exact() : MergeSoftmax(); }

  // The bias of a folded projection is b + W beta.
  Certificate MergeFolded() const {
    const auto terms = [&](const ProjectionView& p, const Matrix& gamma, const Matrix& beta, Obstruction bias) {
      if (gamma.empty()) return Holding({{!IsZero(p.bias), bias}});
      const algebra::Projection folded = algebra::FoldLayerNorm(p, gamma, beta);
      if (IsZero(folded.bias)) return Obstructions();
      return Holding({{!IsZero(p.bias), bias}, {!IsZero(beta), Obstruction::kBeta}});
    };
    Certificate merged = MergeWithoutBias(terms(query_, layer_.gamma, layer_.beta, Obstruction::kQueryBias),
                                          terms(key_, KeyGamma(), KeyBeta(), Obstruction::kKeyBias), around_);
    if (!traits_.norm_is_stream) return merged;
    if (merged.verdict != Exactness::kImpossible) merged.obstructions.clear();
    return Impossible(Join({Obstruction::kStream}, merged.obstructions));
  }

  Certificate MergeOutput() const {
    Obstructions against = Holding({{traits_.output_norm, Obstruction::kOutputNorm}});
    if (!IsZero(value_.bias) && !around_.sums.empty()) {
      against = Join(Join(std::move(against), {Obstruction::kValueBias}), around_.sums);
    }
    return ExactUnless(std::move(against));
  }

  // With a plain softmax b_K is dropped before the approximation.
  Certificate Truncate(int64_t rank) const {
    if (!around_.between.empty()) return Impossible(around_.between);
    const bool softmax = around_.beyond.empty();
    const Tensor<double> a = algebra::Augment(query_);
    const Tensor<double> b = softmax ? Tensor<double>() : algebra::Augment(key_);
    const std::vector<double> values = algebra::SingularValues(a, softmax ? key_.weight : View<const double>(b));
    const auto kept = static_cast<size_t>(rank);
    const int64_t dimension = a.dim(1);
    if (algebra::NumericalRank(values, dimension) <= rank) {
      return softmax ? WithoutKeyTerms(key_bias_, around_) : Exact();
    }
    const double keys = KeyBound();
    return Approximate(algebra::TailNorm(values, rank) / algebra::TailNorm(values, 0),
                       values[kept] * std::hypot(QueryBound(), 1) * (softmax ? keys : std::hypot(keys, 1)));
  }

  Certificate Share() const {
    const bool two_widths = query_.weight.dim(1) != key_.weight.dim(1);
    const Obstructions against = Join(around_.between, Holding({{two_widths, Obstruction::kTwoWidths}}));
    if (!against.empty()) return Impossible(against);
    const Tensor<double> a = algebra::Augment(query_), b = algebra::Augment(key_);
    const int64_t rank = std::min(a.dim(0), a.dim(1));
    const auto fit = algebra::FitShared(a, b, rank);
    // Rounding error of an exact fit: n·u times the factors' norms for the QR of [W_Qᵀ W_Kᵀ], n = D + 1, and the same
    // for the product and the eigenvalues of its core, n = 2E (Higham 2002, §3.5, §19.3); ε = 2u.
    const double rounding =
        static_cast<double>(a.dim(1) + 2 * a.dim(0)) * std::numeric_limits<double>::epsilon() * Norm(a) * Norm(b);
    if (fit.residual <= rounding) return Exact();
    return Approximate(fit.residual_relative, fit.residual * std::hypot(QueryBound(), 1) * std::hypot(KeyBound(), 1));
  }

 private:
  const Matrix& KeyGamma() const { return layer_.source ? layer_.source->gamma : layer_.gamma; }
  const Matrix& KeyBeta() const { return layer_.source ? layer_.source->beta : layer_.beta; }

  // Bound of a normalised token: gamma times a vector of mean square at most 1, plus beta.
  static double TokenBound(AttentionTraits::Norm norm, const Matrix& gamma, const Matrix& beta, int64_t width) {
    if (norm == AttentionTraits::Norm::kNone) return std::numeric_limits<double>::infinity();
    double gain = gamma.empty() ? 1 : 0, offset = 0;
    for (const double g : gamma.span()) gain = std::max(gain, std::abs(g));
    for (int64_t d = 0; d < beta.size(); ++d) offset += beta[d] * beta[d];
    return gain * std::sqrt(static_cast<double>(width)) + std::sqrt(offset);
  }
  double QueryBound() const { return TokenBound(traits_.norm, layer_.gamma, layer_.beta, query_.weight.dim(1)); }
  double KeyBound() const {
    return TokenBound(layer_.source ? traits_.source_norm : traits_.norm, KeyGamma(), KeyBeta(), key_.weight.dim(1));
  }

  // `bound` is on x M x, before scaling.
  Certificate Approximate(double relative, double bound) const {
    const double logits = layer_.scale * bound;
    return {.verdict = Exactness::kApproximate,
            .weight_error = relative,
            .logit_bound = logits,
            .attention_bound = around_.beyond.empty() ? AttentionBound(logits) : Certificate::kNone};
  }

  const inspect::AttentionWeights& layer_;
  const AttentionTraits& traits_;
  const Surroundings& around_;
  const ProjectionView query_, key_, value_;
  const Obstructions query_bias_, key_bias_;
};

// A norm's gain and offset can leave it only if its output goes nowhere else.
Certificate FoldNorm(const AttentionTraits& traits) {
  return ExactUnless(Holding({{traits.norm_is_stream, Obstruction::kStream}}));
}

Certificate Centre(const inspect::AttentionWeights& layer, const AttentionTraits& traits) {
  using Norm = AttentionTraits::Norm;
  const auto either = [&](Norm norm) {
    return traits.norm == norm || (layer.source.has_value() && traits.source_norm == norm);
  };
  return ExactUnless(Holding({{either(Norm::kRmsNorm), Obstruction::kRmsNorm},
                              {either(Norm::kNone), Obstruction::kNoNorm},
                              {traits.norm_is_stream, Obstruction::kStream}}));
}

// The keys' weights, those that several heads share once.
Matrix OwnKeys(const inspect::AttentionWeights& layer) {
  const Matrix& key = layer.key.weight;
  const int64_t groups = layer.key_heads > 0 ? layer.key_heads : layer.heads, of_head = key.dim(0) / layer.heads;
  Matrix own({groups * of_head, key.dim(1)});
  for (int64_t group = 0; group < groups; ++group) {
    const double* const first = key.data() + group * (layer.heads / groups) * of_head * key.dim(1);
    std::copy_n(first, of_head * key.dim(1), own.data() + group * of_head * key.dim(1));
  }
  return own;
}

Certificate ValuesFromKeys(const inspect::AttentionWeights& layer, const Surroundings& around) {
  const Matrix key = OwnKeys(layer);
  if (key.dim(0) != key.dim(1)) return Impossible(Join(around.between, {Obstruction::kNotSquare}));
  const std::vector<double> values = algebra::SingularValues(key);
  const bool singular = algebra::NumericalRank(values, key.dim(0)) < key.dim(0);
  Certificate certificate = ExactUnless(Join(around.between, Holding({{singular, Obstruction::kSingular}})));
  if (certificate.verdict == Exactness::kExact) certificate.condition = values.front() / values.back();
  return certificate;
}

}  // namespace

std::string_view Name(Rewriting rewriting) { return FindName(kRewritings, rewriting); }
std::string_view Name(Exactness exactness) { return FindName(kExactness, exactness); }
std::string_view Name(Obstruction obstruction) { return FindName(kObstructions, obstruction); }

std::vector<Obstruction> ScoreObstructions(const AttentionTraits& t) {
  return Holding({{t.qk_norm, Obstruction::kQkNorm}, {t.rope > 0, Obstruction::kRope}});
}

std::vector<Obstruction> SoftmaxObstructions(const AttentionTraits& t) {
  return Holding({{t.soft_cap, Obstruction::kSoftCap},
                  {t.sink, Obstruction::kSink},
                  {t.added_keys, Obstruction::kAddedKeys},
                  {t.not_softmax, Obstruction::kNotSoftmax}});
}

// Two distributions whose log ratios differ by at most 2δ between entries are farthest apart with two entries:
// sigmoid(δ) − sigmoid(−δ).
double AttentionBound(double logits) { return std::tanh(logits / 2); }

std::vector<Certificate> Certify(const inspect::AttentionWeights& layer, const AttentionTraits& traits, int64_t rank,
                                 int64_t block) {
  Require(rank >= 1, "certify: expected a rank of 1 or more, got {}", rank);
  const Surroundings around(traits);
  std::vector<Certificate> all;
  const auto add = [&](Rewriting rewriting, int64_t head, Certificate certificate) {
    certificate.block = block, certificate.head = head, certificate.rewriting = rewriting;
    all.push_back(std::move(certificate));
  };
  for (int64_t head = 0; head < layer.heads; ++head) {
    const HeadCertificates of(layer, traits, around, head);
    add(Rewriting::kMerge, head, of.Merge());
    add(Rewriting::kMergeSoftmax, head, of.MergeSoftmax());
    add(Rewriting::kMergeExact, head, of.WhereScoresAreLinear());
    add(Rewriting::kDropKeyBias, head, of.DropKeyBias());
    add(Rewriting::kSplit, head, of.WhereScoresAreLinear());
    add(Rewriting::kRegauge, head, of.WhereScoresAreLinear());
    add(Rewriting::kTruncate, head, of.Truncate(rank));
    add(Rewriting::kMergeFolded, head, of.MergeFolded());
    add(Rewriting::kMergeOutput, head, of.MergeOutput());
    add(Rewriting::kShare, head, of.Share());
  }
  add(Rewriting::kFoldNorm, Certificate::kAllHeads, FoldNorm(traits));
  add(Rewriting::kCentre, Certificate::kAllHeads, Centre(layer, traits));
  add(Rewriting::kValuesFromKeys, Certificate::kAllHeads, ValuesFromKeys(layer, around));
  return all;
}

AttentionTraits MakeAttentionTraits(const model::VitConfig& config) {
  const nn::AttentionConfig& attention = config.block.attention;
  return {.qk_norm = attention.qk_norm,
          .rope = config.rotary == model::PatchRotary::kNone ? 0 : attention.query_width(),
          .sink = attention.sinks,
          .output_norm = attention.output_norm};
}

AttentionTraits MakeAttentionTraits(const inspect::AttentionPart& part) {
  const nn::AttentionConfig& attention = part.attention();
  return {.qk_norm = attention.qk_norm,
          .rope = part.rotary() ? attention.query_width() : 0,
          .sink = attention.sinks,
          .output_norm = attention.output_norm};
}

int64_t HalfRank(const nn::AttentionConfig& attention) { return std::max<int64_t>(1, attention.query_width() / 2); }

namespace {

// certify(block) for each block, on all cores, in their order.
template <typename F>
std::vector<Certificate> CertifyBlocks(int64_t depth, F certify) {
  std::vector<std::vector<Certificate>> blocks(static_cast<size_t>(depth));
  ParallelFor(depth, 1, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) blocks[static_cast<size_t>(block)] = certify(block);
  });
  std::vector<Certificate> all;
  for (std::vector<Certificate>& block : blocks) std::ranges::move(block, std::back_inserter(all));
  return all;
}

// The requested norm, in place of an existing one.
AttentionTraits::Norm Replaced(AttentionTraits::Norm norm, AttentionTraits::Norm asked, Matrix* beta) {
  using Norm = AttentionTraits::Norm;
  if (norm == Norm::kLayerNorm && asked == Norm::kRmsNorm) norm = asked;
  if (norm != Norm::kLayerNorm) *beta = Matrix();
  return norm;
}

}  // namespace

std::vector<Certificate> Certify(const model::Checkpoint& checkpoint, int64_t rank) {
  return Certify(checkpoint, rank, MakeAttentionTraits(checkpoint.description.config));
}

std::vector<Certificate> Certify(const model::Checkpoint& checkpoint, int64_t rank, const AttentionTraits& traits) {
  const model::VitConfig& config = checkpoint.description.config;
  if (rank == 0) rank = HalfRank(config.block.attention);
  return CertifyBlocks(config.depth, [&](int64_t block) {
    auto layer = inspect::ReadAttention(checkpoint, block);
    if (traits.norm != AttentionTraits::Norm::kLayerNorm) layer.beta = Matrix();
    return Certify(layer, traits, rank, block);
  });
}

std::vector<Certificate> Certify(const inspect::AttentionPart& part, int64_t rank, const AttentionTraits& traits) {
  if (rank == 0) rank = HalfRank(part.attention());
  std::vector<Certificate> all = CertifyBlocks(part.config->depth, [&](int64_t block) {
    auto layer = inspect::ReadAttention(part, block);
    AttentionTraits own = traits;
    own.norm = Replaced(layer.norm, traits.norm, &layer.beta);
    own.norm_is_stream = layer.norm_is_stream && layer.norm != AttentionTraits::Norm::kNone;
    if (layer.source) own.source_norm = Replaced(layer.source->norm, traits.norm, &layer.source->beta);
    return Certify(layer, own, rank, block);
  });
  for (Certificate& certificate : all) certificate.part = inspect::Name(part.kind);
  return all;
}

}  // namespace qkv::lab
