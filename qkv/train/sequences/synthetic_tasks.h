// Tasks on sequences that are made as they are needed, endlessly and by seed: what a token must look at is elsewhere in
// the sequence, in one direction. Where queries and keys share a projection, a token sees best what resembles it, so
// these tell kinds of attention apart that images hardly do.
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
  kSwap,       // y_i = x_{i+n/2}, y_{i+n/2} = x_i: the halves change places
  kNextToken,  // y_i = x_{i+1}; nothing is asked of the last
  kRecall,  // key, value, key, value, …, key, key, …: y = the value that stood behind that key (Ba et al. 2016); a
            // third of the sequence or more asks, since one question teaches little (Arora et al. 2023)
};

inline constexpr Task kTasks[] = {Task::kCopy, Task::kReverse,   Task::kSort,
                                  Task::kSwap, Task::kNextToken, Task::kRecall};

/// "copy", "reverse", "sort", "swap", "next-token", "recall"
std::string_view Name(Task task);
std::optional<Task> FindTask(std::string_view name);

/// The answer of a token that is not asked for one.
inline constexpr int64_t kNotAsked = kIgnoredLabel;

struct Sequences {
  Task task = Task::kCopy;
  int64_t length = 16;      // tokens of a sequence; even for swap, at least 3 for recall: n/3 pairs, and keys
  int64_t vocabulary = 16;  // of tokens and of answers; recall: the lower half are keys, the upper half values

  /// Throws Error when the task cannot be set with these numbers.
  void Validate() const;
};

/// Sequences first, first + 1, … of the endless list that a seed gives; one does not depend on which others are asked
/// for. tokens, targets: [B, length], dense; a target is the token that is right there, or kNotAsked.
void Generate(const Sequences& sequences, uint64_t seed, int64_t first, View<int32_t> tokens, View<int64_t> targets);

}  // namespace qkv::train
