#include "qkv/inspect/heads.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "qkv/algebra/fold.h"
#include "qkv/algebra/parts.h"
#include "qkv/algebra/spectrum.h"
#include "qkv/core/parallel.h"

namespace qkv::inspect {
namespace {

double Norm(View<const double> x) {
  double sum = 0;
  for (int64_t i = 0; i < x.dim(0); ++i) {
    for (int64_t j = 0; j < (x.rank() == 2 ? x.dim(1) : 1); ++j) {
      const double value = x.rank() == 2 ? *x.at(i, j) : *x.at(i);
      sum += value * value;
    }
  }
  return std::sqrt(sum);
}

int64_t EnergyRank(const std::vector<double>& singular_values, double share) {
  const double all = algebra::TailNorm(singular_values, 0), tail = std::sqrt(1 - share) * all;
  int64_t rank = 0;
  while (algebra::TailNorm(singular_values, rank) > tail) ++rank;
  return rank;
}

// P diag(LayerScale) W_O, [D, H·E], without P if no LayerNorm follows; without an output projection W_O is I.
Tensor<double> OutputWeight(const AttentionWeights& weights) {
  const int64_t D = weights.width(), joined = weights.value.weight.dim(0);
  Tensor<double> output;
  if (weights.output.weight.empty()) {
    Require(joined == D, "inspect heads: without an output projection expected values of {} features, got {}", D,
            joined);
    output = Tensor<double>({D, joined});
    for (int64_t i = 0; i < D; ++i) output[i * D + i] = 1;
  } else {
    output = weights.output.weight.Clone();
  }
  for (int64_t i = 0; i < output.size() && !weights.layer_scale.empty(); ++i) {
    output[i] *= weights.layer_scale[i / joined];
  }
  return weights.output_is_centred ? algebra::CentreOutputs(output) : std::move(output);
}

}  // namespace

Circuit MeasureCircuit(View<const double> a, View<const double> b, Spaces spaces) {
  Circuit circuit;
  circuit.singular_values = algebra::SingularValues(a, b);
  const std::vector<double>& s = circuit.singular_values;
  circuit.effective_rank = algebra::EffectiveRank(s);
  circuit.stable_rank = algebra::StableRank(s);
  // Weights are stored in float, so what is below its rounding is not there.
  circuit.rank = algebra::NumericalRank(s, std::max(a.dim(1), b.dim(1)), std::numeric_limits<float>::epsilon());
  if (circuit.rank > 0) circuit.condition = s.front() / s[static_cast<size_t>(circuit.rank - 1)];
  for (size_t i = 0; i < kEnergyShares.size(); ++i) circuit.energy_rank[i] = EnergyRank(s, kEnergyShares[i]);
  if (spaces == Spaces::kTwo) {
    circuit.symmetry = circuit.eigenvalue_sign = std::numeric_limits<double>::quiet_NaN();
    return circuit;
  }
  circuit.eigenvalues = algebra::Eigenvalues(a, b);
  circuit.symmetry = algebra::SymmetryScore(a, b);
  circuit.eigenvalue_sign = algebra::EigenvalueSign(circuit.eigenvalues);
  return circuit;
}

std::vector<HeadWeights> MeasureWeights(const AttentionWeights& weights) {
  const int64_t heads = weights.heads;
  const FoldedProjections folded = FoldNorms(weights);
  const Spaces spaces = weights.source ? Spaces::kTwo : Spaces::kOne;
  const Tensor<double> output = OutputWeight(weights);
  std::vector<HeadWeights> measured(static_cast<size_t>(heads));
  ParallelTasks(heads, [&](int64_t h, int) {
    HeadWeights& head = measured[static_cast<size_t>(h)];
    head.qk = MeasureCircuit(algebra::Head(folded.query, h, heads).weight, algebra::Head(folded.key, h, heads).weight,
                             spaces);
    head.ov = MeasureCircuit(algebra::Transpose(algebra::OutputHead(output, h, heads)),
                             algebra::Head(folded.value, h, heads).weight, spaces);
    const auto stored_query = algebra::Head(weights.query, h, heads);
    const auto stored_key = algebra::Head(weights.key, h, heads);
    head.query_norm = Norm(stored_query.weight), head.key_norm = Norm(stored_key.weight);
    if (!stored_key.bias.empty()) head.key_bias_norm = Norm(stored_key.bias);
    const std::vector<double> s = algebra::SingularValues(stored_query.weight, stored_key.weight);
    const double squares = head.query_norm * head.query_norm + head.key_norm * head.key_norm;
    if (squares > 0) {
      head.gauge_excess = std::max(0.0, 1 - 2 * std::accumulate(s.begin(), s.end(), 0.0) / squares);
    }
  });
  return measured;
}

HeadParameters CountHead(int64_t D, int64_t E, bool bias, TokenNorm norm) {
  HeadParameters parameters{algebra::CountParameters(D, E, bias, algebra::Terms::kSoftmax)};
  parameters.seen = parameters.count.freedom;
  if (D > 1 && norm == TokenNorm::kLayerNorm)
    parameters.seen = algebra::CountParameters(D - 1, E, bias, algebra::Terms::kSoftmax).freedom;
  return parameters;
}

}  // namespace qkv::inspect
