// The cost of the exact orders in which attention can be computed from tokens, from shapes alone. All give the same
// output up to rounding; which is cheapest depends on how many rows are read.
#pragma once

#include <cstdint>

namespace qkv::attention {

/// Attention of some query tokens to the tokens of one sequence.
struct Workload {
  int64_t queries = 0, keys = 0;      // N_q, N_k
  int64_t width = 0;                  // D
  int64_t heads = 1, head_width = 0;  // H, E
  bool keys_are_linear = true;        // no norm, rotation or cap between W_K x and its product with a query
};

enum class Order {
  kProjected,  // K = X W_Kᵀ and V = X W_Vᵀ of all tokens, then softmax(Q Kᵀ) V
  kAbsorbed,   // softmax((Q W_K) Xᵀ) X W_Vᵀ: the queries carry W_K, the sums W_V (DeepSeek-AI 2024, §2.1)
};

/// Multiply-adds from the projected queries and the tokens to the joined heads.
double MultiplyAdds(Order order, const Workload& workload);

/// The possible order of fewest multiply-adds. It depends on the shapes of one sequence alone: not on the batch, so
/// that an image's result does not depend on its company, nor on the machine.
Order CheapestOrder(const Workload& workload);

}  // namespace qkv::attention
