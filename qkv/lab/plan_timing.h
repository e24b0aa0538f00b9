// Time of the orders of attention/plan on this machine, predicted from measurements of its kernels.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "qkv/attention/plan.h"
#include "qkv/core/rng.h"

namespace qkv::lab {

/// The terms of a step's time. Each is a count that follows from shapes; a machine has a price for each.
enum class Term {
  kProductCall,    // starting a product of rows by weights
  kProduct,        // its multiply-adds, rounded up to the kernels' tiles
  kWeights,        // weights read
  kRows,           // elements of rows read and written, in all kinds of steps
  kScoreCall,      // starting a product of rows by rows
  kScore,          // its multiply-adds
  kScorePacking,   // arranging its right operand
  kTask,           // one head's or sequence's share of scores or attention
  kAttentionCall,  // starting attention
  kAttention,      // its multiply-adds
  kExponential,    // softmax
  kAttentionKeys,  // arranging keys and values
  kHeads,          // summing heads
  kHeadRows,       // rows of heads that are written separately
};
inline constexpr size_t kTerms = 14;
using Terms = std::array<double, kTerms>;

/// The counts of a plan for kernels of this type of element.
template <typename T>
Terms TermsOf(const attention::Plan& plan, const attention::Workload& workload);

/// The prices of one machine, for one type of element, under its active kernels and number of threads.
struct Costs {
  Terms seconds{};          // of one of each
  double memory = 0;        // bytes a second
  double cached_bytes = 0;  // capacity of the caches between runs
  int element = 4;
};

/// Runs small workloads in all orders for about two seconds, and fits the prices to their times.
template <typename T>
Costs MeasureCosts();

/// Least squares of relative errors with no negative price: x >= 0 that makes rows · x nearest to `seconds`, each row
/// in units of its own seconds (Lawson and Hanson 1974, §23, by coordinate descent).
Terms FitPrices(std::span<const Terms> rows, std::span<const double> seconds);

/// Predicted seconds of a plan on this machine with its weights prepared, run repeatedly: the sum of its terms, but at
/// least the time of its memory traffic if that exceeds the caches.
template <typename T>
double PredictSeconds(const attention::Plan& plan, const attention::Workload& workload, const Costs& costs);

/// All possible plans; the orders of outputs vary only if outputs are read.
std::vector<attention::Plan> PossiblePlans(const attention::Workload& workload);
/// The possible plan with the least predicted time here. Not for inference, whose results must not depend on the
/// machine.
template <typename T>
attention::Plan FastestPlan(const attention::Workload& workload, const Costs& costs);

/// A random workload of at most so many multiply-adds, with shapes found in the field: up to 1024 tokens, all or few of
/// them read, width 32 to 1024, 1 to 12 heads of half to twice their share of the width, one wide head, latents.
attention::Workload RandomWorkload(Rng& rng, double most_multiply_adds);

}  // namespace qkv::lab
