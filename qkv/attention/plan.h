// The cost of the exact orders in which attention can be computed from tokens, from shapes alone. All give the same
// scores and outputs up to rounding; which is cheapest depends on the shapes and on how many rows are read.
// Without biases the scores of a head are a chain of four matrices, X_q W_Qᵀ W_K Xᵀ, and its outputs another,
// A X W_Vᵀ W_Oᵀ: each has five orders. Biases change none of the counts: notes 2 and 12 of docs/algebra.md.
// Not here: running the orders (plan_run.h).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace qkv::attention {

enum class Order {
  kProjected,  // (X_q W_Qᵀ)(W_K Xᵀ) and (A (X W_Vᵀ)) W_Oᵀ: as everybody does it
  kAbsorbed,  // ((X_q W_Qᵀ) W_K) Xᵀ and ((A X) W_Vᵀ) W_Oᵀ: queries carry W_K, sums W_V (DeepSeek-AI 2024, §2.1)
  kMerged,    // (X_q M) Xᵀ and (A X) M_OVᵀ: M = W_Qᵀ W_K and M_OV = W_O W_V of each head are made beforehand
  kKeysAbsorbed,  // X_q (W_Qᵀ (W_K Xᵀ)) and A ((X W_Vᵀ) W_Oᵀ): for more queries than keys
  kKeysMerged,    // X_q (M Xᵀ) and A (X M_OVᵀ): likewise
};
inline constexpr std::array kOrders = {Order::kProjected, Order::kAbsorbed, Order::kMerged, Order::kKeysAbsorbed,
                                       Order::kKeysMerged};

/// "projected", "absorbed", …
std::string_view Name(Order order);

/// What keys and values are made from.
enum class Cached {
  kTokens,         // the tokens, as they come into the layer or from a cache: of the layer's own nothing is cached
  kKeysAndValues,  // their keys and values, but for those of the queries, which are the last tokens
  kLatent,         // latents of width c, which W_K and W_V make keys and values of (DeepSeek-AI 2024, §2.1), likewise
};

/// What is wanted.
enum class Read { kOutputs, kScores };

/// Attention of some query tokens to the tokens of one sequence.
struct Workload {
  int64_t queries = 0, keys = 0;      // N_q, N_k
  int64_t width = 0;                  // D
  int64_t heads = 1, head_width = 0;  // H, E
  bool keys_are_linear = true;        // no norm, rotation or cap between W_K x and its product with a query
  bool projection = true;             // the joined heads go through W_O, with no norm in between
  int64_t value_width = 0;            // E_v; 0 means E
  int64_t batch = 1;                  // B
  Cached cached = Cached::kTokens;
  int64_t latent = 0;  // c, of kLatent
  Read read = Read::kOutputs;

  int64_t values() const { return value_width > 0 ? value_width : head_width; }                // E_v
  int64_t source() const { return cached == Cached::kLatent && latent > 0 ? latent : width; }  // D or c
};

/// Both chains' orders; `outputs` means nothing where scores alone are read.
struct Plan {
  Order scores = Order::kProjected, outputs = Order::kProjected;
  bool operator==(const Plan&) const = default;
};

/// Whether this order of scores (of outputs) gives them exactly and from what there is.
bool CanScore(Order order, const Workload& workload);
bool CanSum(Order order, const Workload& workload);

/// One contraction, or several of one shape.
struct Step {
  enum class Kind {
    kWeights,    // rows of tokens by weights
    kProduct,    // rows by rows of another: scores that are read
    kAttention,  // scores, softmax and sums, fused: [rows, inner] to [columns, inner] and [columns, values]
    kHeads,      // the sum of `inner` heads' outputs
  };
  Kind kind = Kind::kWeights;
  std::string_view what;
  int64_t count = 0;                         // products of this shape
  int64_t rows = 0, inner = 0, columns = 0;  // of one of them: [rows, inner] by [inner, columns]
  int64_t values = 0;                        // kAttention: width of what is summed
  double elements = 0;                       // of all operands and results, each once: what heads share counts once
  int64_t heads = 1;                         // kWeights: the columns of so many are written apart

  double multiply_adds() const;
};

/// What a plan computes, one step after the other.
struct Steps {
  std::array<Step, 8> at;
  int count = 0;
  const Step* begin() const { return at.data(); }
  const Step* end() const { return at.data() + count; }
};
/// Throws Error when a size is missing or negative, or the plan is not possible.
Steps StepsOf(const Plan& plan, const Workload& workload);

/// From the tokens to the scores or outputs, in all: what is made beforehand is not counted.
double MultiplyAdds(const Plan& plan, const Workload& workload);
/// Operands and results of all steps, `element` bytes each: what passes through memory where no cache holds it.
double Bytes(const Plan& plan, const Workload& workload, int element = 4);
/// What making the M and M_OV of a plan costs, once: D·E·D a head each (D·E·c from latents).
double MultiplyAddsBeforehand(const Plan& plan, const Workload& workload);

/// The possible plan of fewest multiply-adds among these orders; of equals the one that comes first in kOrders. It
/// depends on the shapes of one sequence alone: not on the batch, so that an image's result does not depend on its
/// company, nor on the machine.
/// Inference calls it with the orders that it has weights for. kMerged wins for all tokens where E/D > (D + N)/(2D +
/// N), that is for one wide head at most, and for few rows where E > D/2; kAbsorbed for few rows of narrow heads.
Plan CheapestPlan(const Workload& workload, std::span<const Order> among = kOrders);

/// The break-evens of notes 9 to 11, for one side of the layer, scores or outputs, where both cost the same (E = E_v).
/// E/D above which merging beforehand beats projecting, for all of N tokens: (D + N) / (2D + N).
double MergingPaysAbove(double tokens, double width);
/// Rows below which absorbing beats projecting: N·D·E / (D·E + N(D − E)), D the width of what is cached; infinity where
/// it always does.
double AbsorbingPaysBelow(double tokens, double width, double head_width);

}  // namespace qkv::attention
