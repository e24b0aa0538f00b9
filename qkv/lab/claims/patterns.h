// Patterns of attention: which token each token looks at most. Which of them one head can make is a question of
// cycles: follow from token to token what each one looks at.
//
//     separate queries and keys    every pattern                    N^N
//     symmetric scores (UΛUᵀ)      no cycle longer than two         S_ij grows along a cycle, so it cannot close
//     shared queries and keys      no cycle but tokens that look    (N + 1)^(N − 1), the forests of N labelled
//                                  at themselves                    nodes with roots (Cayley 1889)
//
// since S_ii + S_jj ≥ 2 S_ij forbids that two tokens prefer each other to themselves. Tokens here are one-hot, so that
// a projection can give each token any vector.
#pragma once

#include <cstdint>
#include <vector>

#include "qkv/core/tensor.h"

namespace qkv::lab {

/// For each token the one it looks at.
using Pattern = std::vector<int64_t>;

/// All N^N of N tokens, in lexical order.
std::vector<Pattern> AllPatterns(int64_t N);
/// The length of the longest cycle: 1 if every token ends at one that looks at itself.
int64_t LongestCycle(const Pattern& pattern);
/// The greatest score of each row; a tie counts as none, −1.
Pattern PatternOf(View<const double> scores);

/// Vectors of which q_i = k_i makes the pattern, [N, N]; for any pattern without a cycle but fixed points.
/// Throws Error for any other: there are none.
Tensor<double> SharedVectorsFor(const Pattern& pattern);
/// Symmetric scores that make the pattern, [N, N]; for any pattern whose cycles are no longer than two. Throws Error
/// otherwise.
Tensor<double> SymmetricScoresFor(const Pattern& pattern);
/// Two patterns without longer cycles, of which one or the other has what `pattern` says for each token: what two
/// shared heads see together.
std::pair<Pattern, Pattern> SplitIntoForests(const Pattern& pattern);

}  // namespace qkv::lab
