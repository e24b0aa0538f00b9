// How long the orders of attention/plan take on this machine: predicted from what its kernels were measured to do.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "qkv/attention/plan.h"
#include "qkv/core/rng.h"

namespace qkv::attention {

/// What a step's seconds are made of. Each is a count that follows from shapes; a machine has a price for each.
enum class Term {
  kProductCall,    // starting a product of rows by weights
  kProduct,        // its multiply-adds, as the kernels' tiles make them
  kWeights,        // weights passing by
  kRows,           // elements of rows read and written, in all kinds of steps
  kScoreCall,      // starting a product of rows by rows
  kScore,          // its multiply-adds
  kScorePacking,   // arranging its right operand
  kTask,           // one head's or sequence's part of scores or attention
  kAttentionCall,  // starting attention
  kAttention,      // its multiply-adds
  kExponential,    // softmax
  kAttentionKeys,  // arranging keys and values
  kHeads,          // adding heads up
  kHeadRows,       // rows of heads that are written apart
};
inline constexpr size_t kTerms = 14;
using Terms = std::array<double, kTerms>;

/// The counts of a plan for kernels of this type of element.
template <typename T>
Terms TermsOf(const Plan& plan, const Workload& workload);

/// The prices of one machine, for one type of element, under its active kernels and number of threads.
struct Costs {
  Terms seconds{};          // of one of each
  double memory = 0;        // bytes a second
  double cached_bytes = 0;  // what the caches hold from one run to the next
  int element = 4;
};

/// Runs small workloads in all orders for about two seconds, and fits the prices to their times.
template <typename T>
Costs MeasureCosts();

/// Least squares of relative errors with no negative price: x >= 0 that makes rows · x nearest to `seconds`, each row
/// in units of its own seconds (Lawson and Hanson 1974, §23, by coordinate descent).
Terms FitPrices(std::span<const Terms> rows, std::span<const double> seconds);

/// Seconds of a plan on this machine with its weights prepared, run again and again: the sum of its terms, but not
/// less than its bytes take where they are more than the caches hold.
template <typename T>
double PredictSeconds(const Plan& plan, const Workload& workload, const Costs& costs);

/// All plans that are possible, the orders of outputs only where they are read.
std::vector<Plan> PossiblePlans(const Workload& workload);
/// The possible plan that is predicted to be the fastest here. Not for inference, whose results depend on no machine.
template <typename T>
Plan FastestPlan(const Workload& workload, const Costs& costs);

/// A workload of up to so many multiply-adds, drawn from what there is in the field: up to 1024 tokens, all of them or
/// few read, width 32 to 1024, 1 to 12 heads from half to twice their share of it, one wide head, latents.
Workload RandomWorkload(Rng& rng, double most_multiply_adds);

}  // namespace qkv::attention
