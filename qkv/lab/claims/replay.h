// Shared parts of the replays: random inputs, a trained model's heads and tokens, tolerances, a timer.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "qkv/algebra/projection.h"
#include "qkv/core/rng.h"
#include "qkv/core/tensor.h"
#include "qkv/lab/claims/claims.h"
#include "qkv/model/model.h"

namespace qkv::lab::internal {

using Matrix = Tensor<double>;

/// The expectation of a check that only reports.
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// One head of a trained model with its tokens for the first image. The preceding LayerNorm is folded into the weights,
/// so `tokens` are normalised.
struct TrainedHead {
  int64_t block = 0, head = 0;
  algebra::QueryKey pair;          // [r, D] and biases; r is D of merged heads
  double scale = 1;                // of the logits, for any r
  algebra::Projection value;       // [E_v, D]
  const Matrix* tokens = nullptr;  // [N, D]
};

class Translator;

class Bench {
 public:
  explicit Bench(const Setup& setup);
  ~Bench();
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  const Setup& setup() const { return setup_; }
  uint64_t seed() const { return setup_.seed; }
  const model::Model& model() const { return model_; }
  const Tensor<float>& pixels() const { return pixels_; }  // [images, channels, height, width]
  bool drawn() const { return setup_.images.empty(); }     // the images are drawn digits
  const std::string& name() const { return setup_.checkpoint->source; }
  int64_t depth() const { return model_.config().depth; }
  int64_t heads() const { return model_.config().block.attention.heads; }
  /// A remark for the logits of trained heads if the model has a QK-norm, which the replay omits; else empty.
  const char* reservation() const {
    return model_.config().block.attention.qk_norm ? " (without its QK-norm: not the model's own scores)" : "";
  }
  /// Block by block, head by head.
  const std::vector<TrainedHead>& trained() const { return trained_; }
  /// The translator of the setup, opened when it is first needed; null if there is none.
  const Translator* translator() const;
  /// Results of trainings whose arms differ in cross-attention; setup().ablations has the others.
  const std::vector<AblationResults>& cross_ablations() const { return of_cross_; }

 private:
  std::vector<AblationResults> of_layers_, of_cross_;
  mutable std::unique_ptr<const Translator> translator_;
  Setup setup_;
  model::Model model_;
  Tensor<float> pixels_;
  std::vector<Matrix> tokens_;  // inputs of each block for the first image, normalised
  std::vector<TrainedHead> trained_;
};

/// Integers −2 … 2, whose products are exact.
Matrix Integers(const Shape& shape, Rng& rng);
/// In [0, 1), as NumPy's rand.
Matrix Uniform(const Shape& shape, Rng& rng);
Matrix Normal(const Shape& shape, Rng& rng, double stddev = 1);
algebra::Projection NormalProjection(int64_t E, int64_t D, Rng& rng, double bias = 0);

/// a b of [m, k] and [k, n], naive.
Matrix Multiply(View<const double> a, View<const double> b);
double Norm(View<const double> m);
double MaxDifference(View<const double> a, View<const double> b);
/// max |S_ij − S_ji|.
double Asymmetry(const Matrix& scores);

/// Bound on the rounding of `steps` products in precision T with inner dimension up to n and sums of absolute values up
/// to `magnitude`: each adds n · u · magnitude (Higham 2002, §3.5); doubled, for the two sides of a comparison.
template <typename T = double>
double Rounding(int steps, int64_t n, double magnitude) {
  return steps * (static_cast<double>(n) + 2) * std::numeric_limits<T>::epsilon() * magnitude;
}
/// The magnitude for the logits q_i·k_j of a pair: at most ‖[x 1]‖² ‖[W_Q b_Q]‖ ‖[W_K b_K]‖.
double LogitMagnitude(const algebra::QueryKeyView& pair, View<const double> tokens);

/// The least time of one call of f over `tries` measurements, in seconds; short calls are repeated for a millisecond.
template <typename F>
double BestTime(F&& f, int tries = 5) {
  using Clock = std::chrono::steady_clock;
  const auto seconds = [&](int64_t calls) {
    const auto start = Clock::now();
    for (int64_t i = 0; i < calls; ++i) f();
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  const double first = seconds(1);
  const int64_t calls = first > 1e-3 ? 1 : static_cast<int64_t>(1e-3 / std::max(first, 1e-8)) + 1;
  double best = first;
  for (int i = 0; i < tries; ++i) best = std::min(best, seconds(calls) / static_cast<double>(calls));
  return best;
}

// symmetry.cc
Result ReplayUnified(const Bench& bench);
Result ReplaySeparate(const Bench& bench);
Result ReplaySameQk(const Bench& bench);
// patterns.cc
Result ReplayRestriction(const Bench& bench);
Result ReplayPatterns(const Bench& bench);
// merging.cc
Result ReplayIdentity(const Bench& bench);
Result ReplayParameters(const Bench& bench);
Result ReplaySpeed(const Bench& bench);
Result ReplayObstacles(const Bench& bench);
// training.cc
Result ReplayLearning(const Bench& bench);
Result ReplayOneMatrix(const Bench& bench);
// ancestors.cc
Result ReplaySmoothing(const Bench& bench);
Result ReplaySearch(const Bench& bench);
Result ReplayDictionary(const Bench& bench);
// spectra.cc
Result ReplaySpectra(const Bench& bench);
Result ReplayVariance(const Bench& bench);
// heads.cc
Result ReplayHeads(const Bench& bench);
Result ReplayAllAtOnce(const Bench& bench);
// translation.cc
Result ReplayTwoSequences(const Bench& bench);
Result ReplaySoftDictionary(const Bench& bench);
Result ReplayAlongTheDiagonal(const Bench& bench);
Result ReplayLanguageModel(const Bench& bench);

}  // namespace qkv::lab::internal
