// Predicts the time of the plans of attention/plan on this machine from measurements of its kernels.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "qkv/attention/plan.h"
#include "qkv/core/rng.h"

namespace qkv::lab {

/// Terms of a plan's time. Each is a count that follows from the shapes; a machine has a cost per unit of each.
enum class Term {
  kProductCall,    // start of a product of rows by weights
  kProduct,        // its multiply-adds, rounded up to the kernels' tiles
  kWeights,        // weights read
  kRows,           // elements of rows read and written, in all kinds of steps
  kScoreCall,      // start of a product of rows by rows
  kScore,          // its multiply-adds
  kScorePacking,   // packing of its right operand
  kTask,           // one head's or sequence's share of scores or attention
  kAttentionCall,  // start of attention
  kAttention,      // its multiply-adds
  kExponential,    // softmax
  kAttentionKeys,  // packing of keys and values
  kHeads,          // summing heads
  kHeadRows,       // rows of heads that are stored separately
};
inline constexpr size_t kTerms = 14;
using Terms = std::array<double, kTerms>;

/// The counts of a plan, for kernels of this element type.
template <typename T>
Terms PlanTerms(const attention::Plan& plan, const attention::Workload& workload);

/// The costs on one machine, for one element type, with its active kernels and number of threads.
struct Costs {
  Terms seconds{};          // per unit of each term
  double memory = 0;        // bytes per second
  double cached_bytes = 0;  // capacity of the caches between runs
  int element = 4;
};

/// Runs small workloads with all plans for about two seconds and fits the costs to their times.
template <typename T>
Costs MeasureCosts();

/// Non-negative least squares of relative errors: x >= 0 that minimises the error of rows · x against `seconds`, each
/// row in units of its own seconds (Lawson and Hanson 1974, §23, by coordinate descent).
Terms FitPrices(std::span<const Terms> rows, std::span<const double> seconds);

/// Predicted seconds of a plan with prepared weights in repeated runs: the sum of its terms, but at least the time of
/// its memory traffic if that exceeds the caches.
template <typename T>
double PredictSeconds(const attention::Plan& plan, const attention::Workload& workload, const Costs& costs);

/// All possible plans; orders of the outputs vary only if outputs are read.
std::vector<attention::Plan> PossiblePlans(const attention::Workload& workload);
/// The possible plan with the least predicted time on this machine. Not for inference, whose results must not depend on
/// the machine.
template <typename T>
attention::Plan FastestPlan(const attention::Workload& workload, const Costs& costs);

/// A random workload of at most this many multiply-adds, with realistic shapes: up to 1024 tokens, all or few of them
/// read, width 32 to 1024, 1 to 12 heads of half to twice their share of the width, one wide head, latents.
attention::Workload RandomWorkload(Rng& rng, double most_multiply_adds);

}  // namespace qkv::lab
