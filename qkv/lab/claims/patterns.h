// Patterns of attention: the token that each token attends to most. Which patterns one head can produce depends on
// their cycles, found by following each token to its target.
//
//     separate queries and keys    every pattern                  N^N
//     symmetric scores (UΛUᵀ)      no cycle longer than two       S_ij grows along a cycle, so it cannot close
//     shared queries and keys      no cycle except fixed points   (N + 1)^(N − 1), the rooted forests of N labelled
//                                                                 nodes (Cayley 1889)
//
// since S_ii + S_jj ≥ 2 S_ij excludes two tokens that prefer each other to themselves. Tokens here are one-hot, so that
// a projection can give each token any vector.
#pragma once

#include <cstdint>
#include <vector>

#include "qkv/core/tensor.h"

namespace qkv::lab {

/// For each token, the token that it attends to most.
using Pattern = std::vector<int64_t>;

/// All N^N patterns of N tokens, in lexical order.
std::vector<Pattern> AllPatterns(int64_t N);
/// Length of the longest cycle: 1 if every path ends in a fixed point.
int64_t LongestCycle(const Pattern& pattern);
/// The argmax of each row; −1 for a tie.
Pattern FindPattern(View<const double> scores);

/// Vectors q_i = k_i that produce the pattern, [N, N]. Throws Error if the pattern has a cycle of length 2 or more: no
/// such vectors exist.
Tensor<double> SharedVectorsFor(const Pattern& pattern);
/// Symmetric scores that produce the pattern, [N, N]. Throws Error if a cycle is longer than two.
Tensor<double> SymmetricScoresFor(const Pattern& pattern);
/// Splits a pattern into two without longer cycles, so that each token's target is in one of them: two shared heads
/// together can produce any pattern.
std::pair<Pattern, Pattern> SplitIntoForests(const Pattern& pattern);

}  // namespace qkv::lab
