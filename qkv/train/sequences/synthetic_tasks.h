// Synthetic sequence tasks, generated endlessly from a seed. Each token needs information from another place in a fixed
// direction. With a shared projection of queries and keys, a token attends best to similar tokens, so these tasks
// separate kinds of attention that images hardly separate.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "qkv/core/tensor.h"
#include "qkv/train/network/loss.h"

namespace qkv::train {

enum class Task {
  kCopy,       // y_i = x_i
  kReverse,    // y_i = x_{n−1−i}
  kSort,       // y_i = the i-th smallest of x
  kSwap,       // the two halves are swapped
  kNextToken,  // the last token has no label
  kRecall,  // key, value, key, value, …, key, key, …: y = the value that followed that key (Ba et al. 2016); at least a
            // third of the tokens are queries, since a single one gives little signal (Arora et al. 2023)
};

inline constexpr Task kTasks[] = {Task::kCopy, Task::kReverse,   Task::kSort,
                                  Task::kSwap, Task::kNextToken, Task::kRecall};

/// "copy", "reverse", "sort", "swap", "next-token", "recall"
std::string_view Name(Task task);
std::optional<Task> FindTask(std::string_view name);

/// The label of a token without an answer.
inline constexpr int64_t kNotAsked = kIgnoredLabel;

struct Sequences {
  Task task = Task::kCopy;
  int64_t length = 16;      // tokens per sequence; even for swap, at least 3 for recall: n/3 pairs, then queries
  int64_t vocabulary = 16;  // number of tokens, and of labels; recall: keys are the lower half, values the upper

  /// Throws Error if the task is impossible with these numbers.
  void Validate() const;
};

/// Writes sequences first, first + 1, … of the endless list of this seed; each depends on its index only. tokens,
/// targets: [B, length], dense; a target is the correct token, or kNotAsked.
void Generate(const Sequences& sequences, uint64_t seed, int64_t first, View<int32_t> tokens, View<int64_t> targets);

}  // namespace qkv::train
