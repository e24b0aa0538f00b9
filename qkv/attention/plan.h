// Costs, from shapes alone, of the exact orders in which attention can be computed from tokens. All orders give the
// same scores and outputs up to rounding; the cheapest depends on the shapes and on the number of rows read. Without
// biases the scores of a head are a chain of four matrices, X_q W_Qᵀ W_K Xᵀ, and its outputs another, A X W_Vᵀ W_Oᵀ;
// each has five orders. Biases do not change the counts: notes 2 and 12 of docs/algebra.md. Not here: running the
// orders (lab/plan_trial.h).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace qkv::attention {

enum class Order {
  kProjected,  // (X_q W_Qᵀ)(W_K Xᵀ) and (A (X W_Vᵀ)) W_Oᵀ: the usual order
  kAbsorbed,  // ((X_q W_Qᵀ) W_K) Xᵀ and ((A X) W_Vᵀ) W_Oᵀ: W_K on queries, W_V on sums (DeepSeek-AI 2024, §2.1)
  kMerged,    // (X_q M) Xᵀ and (A X) M_OVᵀ: M = W_Qᵀ W_K and M_OV = W_O W_V of each head are computed beforehand
  kKeysAbsorbed,  // X_q (W_Qᵀ (W_K Xᵀ)) and A ((X W_Vᵀ) W_Oᵀ): for more queries than keys
  kKeysMerged,    // X_q (M Xᵀ) and A (X M_OVᵀ): for more queries than keys
};
inline constexpr std::array kOrders = {Order::kProjected, Order::kAbsorbed, Order::kMerged, Order::kKeysAbsorbed,
                                       Order::kKeysMerged};

/// "projected", "absorbed", …
std::string_view Name(Order order);

/// The source of keys and values.
enum class Cached {
  kTokens,         // the tokens, input of the layer or from a cache: nothing computed by the layer is cached
  kKeysAndValues,  // cached keys and values of all tokens but the queries' own, which are the last tokens
  kLatent,         // likewise latents of width c, projected by W_K and W_V (DeepSeek-AI 2024, §2.1)
};

/// The requested result.
enum class Read { kOutputs, kScores };

/// Shapes of attention from some query tokens to the tokens of one sequence.
struct Workload {
  int64_t queries = 0, keys = 0;      // N_q, N_k
  int64_t width = 0;                  // D
  int64_t heads = 1, head_width = 0;  // H, E
  bool keys_are_linear = true;        // no norm, rotation or cap between W_K x and its product with a query
  bool projection = true;             // W_O follows the joined heads, with no norm in between
  int64_t value_width = 0;            // E_v; 0 means E
  int64_t batch = 1;                  // B
  Cached cached = Cached::kTokens;
  int64_t latent = 0;  // c, of kLatent
  Read read = Read::kOutputs;

  int64_t values() const { return value_width > 0 ? value_width : head_width; }                // E_v
  int64_t source() const { return cached == Cached::kLatent && latent > 0 ? latent : width; }  // D or c
};

/// The order of each chain; `outputs` is ignored if only scores are read.
struct Plan {
  Order scores = Order::kProjected, outputs = Order::kProjected;
  bool operator==(const Plan&) const = default;
};

/// True if this order of the scores (of the outputs) is exact and possible with what is cached.
bool CanScore(Order order, const Workload& workload);
bool CanSum(Order order, const Workload& workload);

/// One contraction, or several of the same shape.
struct Step {
  enum class Kind {
    kWeights,    // rows of tokens by weights
    kProduct,    // rows by other rows: requested scores
    kAttention,  // scores, softmax and sums, fused: [rows, inner] to [columns, inner] and [columns, values]
    kHeads,      // the sum of `inner` heads' outputs
  };
  Kind kind = Kind::kWeights;
  std::string_view what;
  int64_t count = 0;                         // products of this shape
  int64_t rows = 0, inner = 0, columns = 0;  // of each: [rows, inner] by [inner, columns]
  int64_t values = 0;                        // kAttention: width of the values
  double elements = 0;  // of all operands and results, each once; operands shared by heads count once
  int64_t heads = 1;    // kWeights: the columns of this many heads are written separately

  double multiply_adds() const;
};

/// The steps of a plan, in order.
struct Steps {
  std::array<Step, 8> at;
  int count = 0;
  const Step* begin() const { return at.data(); }
  const Step* end() const { return at.data() + count; }
};
/// Throws Error if a size is missing or negative, or if the plan is not possible.
Steps PlanSteps(const Plan& plan, const Workload& workload);

/// Multiply-adds from the tokens to the scores or outputs, without matrices that are computed beforehand.
double MultiplyAdds(const Plan& plan, const Workload& workload);
/// Bytes of operands and results of all steps, `element` bytes each: the memory traffic without a cache.
double Bytes(const Plan& plan, const Workload& workload, int element = 4);
/// Multiply-adds to compute the M and M_OV of a plan, once: D·E·D per head each (D·E·c from latents).
double MultiplyAddsBeforehand(const Plan& plan, const Workload& workload);

/// The possible plan with the fewest multiply-adds among these orders; ties go to the first in kOrders. It depends only
/// on the shapes of one sequence, not on the batch or the machine, so that an image's result does not depend on the
/// rest of its batch. Inference passes the orders for which it has weights. For all tokens, kMerged is cheapest if E/D
/// > (D + N)/(2D + N), which needs a single wide head; for few rows, kMerged is cheapest if E > D/2, and kAbsorbed if
/// heads are narrow.
Plan CheapestPlan(const Workload& workload, std::span<const Order> among = kOrders);

/// The break-evens of notes 9 to 11, at which both orders cost the same, for one side of the layer, scores or outputs
/// (E = E_v).
/// E/D above which merging beforehand is cheaper than projecting, for all N tokens: (D + N) / (2D + N).
double MergingPaysAbove(double tokens, double width);
/// Rows below which absorbing is cheaper than projecting: N·D·E / (D·E + N(D − E)), where D is the width of what is
/// cached; infinity if it always is.
double AbsorbingPaysBelow(double tokens, double width, double head_width);

}  // namespace qkv::attention
