#include "qkv/train/sequences/synthetic_tasks.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "qkv/core/rng.h"

namespace qkv::train {
namespace {

constexpr std::array<std::pair<Task, std::string_view>, 6> kNames = {{{Task::kCopy, "copy"},
                                                                      {Task::kReverse, "reverse"},
                                                                      {Task::kSort, "sort"},
                                                                      {Task::kSwap, "swap"},
                                                                      {Task::kNextToken, "next-token"},
                                                                      {Task::kRecall, "recall"}}};

// Pairs of a recall sequence; the remaining tokens are queries.
int64_t Pairs(int64_t length) { return length / 3; }

// Uniform below `count`; the bias of 64 bits modulo a vocabulary is far too small to observe.
int32_t Below(Rng& rng, int64_t count) { return static_cast<int32_t>(rng.Next() % static_cast<uint64_t>(count)); }

// Distinct keys, each followed by a value; then queries drawn from these keys.
void Recall(Rng& rng, int64_t vocabulary, std::span<int32_t> tokens, std::span<int64_t> targets) {
  const int64_t keys = vocabulary / 2, pairs = Pairs(std::ssize(tokens));
  std::ranges::fill(targets, kNotAsked);
  for (int64_t p = 0; p < pairs; ++p) {
    int32_t key;
    bool used;
    do {
      key = Below(rng, keys);
      used = false;
      for (int64_t before = 0; before < p; ++before) used |= tokens[static_cast<size_t>(2 * before)] == key;
    } while (used);
    tokens[static_cast<size_t>(2 * p)] = key;
    tokens[static_cast<size_t>(2 * p + 1)] = static_cast<int32_t>(keys) + Below(rng, vocabulary - keys);
  }
  for (auto i = static_cast<size_t>(2 * pairs); i < tokens.size(); ++i) {
    const auto asked = static_cast<size_t>(2 * Below(rng, pairs));
    tokens[i] = tokens[asked];
    targets[i] = tokens[asked + 1];
  }
}

void Make(const Sequences& sequences, Rng& rng, std::span<int32_t> tokens, std::span<int64_t> targets) {
  if (sequences.task == Task::kRecall) return Recall(rng, sequences.vocabulary, tokens, targets);
  for (int32_t& token : tokens) token = Below(rng, sequences.vocabulary);
  std::ranges::copy(tokens, targets.begin());
  switch (sequences.task) {
    case Task::kReverse:
      std::ranges::reverse(targets);
      break;
    case Task::kSort:
      std::ranges::sort(targets);
      break;
    case Task::kSwap:
      std::rotate(targets.begin(), targets.begin() + std::ssize(targets) / 2, targets.end());
      break;
    case Task::kNextToken:
      std::rotate(targets.begin(), targets.begin() + 1, targets.end());
      targets.back() = kNotAsked;
      break;
    case Task::kCopy:
    case Task::kRecall:
      break;
  }
}

}  // namespace

std::string_view Name(Task task) {
  return std::ranges::find(kNames, task, &std::pair<Task, std::string_view>::first)->second;
}

std::optional<Task> FindTask(std::string_view name) {
  const auto* found = std::ranges::find(kNames, name, &std::pair<Task, std::string_view>::second);
  if (found == kNames.end()) return std::nullopt;
  return found->first;
}

void Sequences::Validate() const {
  Require(length >= 2 && vocabulary >= 2 && vocabulary <= INT32_MAX,
          "{}: sequences of {} tokens out of {}, expected 2 or more of each", Name(task), length, vocabulary);
  Require(task != Task::kSwap || length % 2 == 0, "swap: {} tokens, expected an even number: the halves change places",
          length);
  if (task != Task::kRecall) return;
  Require(length >= 3, "recall: {} tokens, expected 3 or more: a pair, and a key that is asked for", length);
  Require(Pairs(length) <= vocabulary / 2,
          "recall: {} pairs want as many different keys, half of a vocabulary of {} has {}", Pairs(length), vocabulary,
          vocabulary / 2);
}

void Generate(const Sequences& sequences, uint64_t seed, int64_t first, View<int32_t> tokens, View<int64_t> targets) {
  sequences.Validate();
  Require(tokens.rank() == 2 && tokens.dim(1) == sequences.length && tokens.shape() == targets.shape(),
          "tasks: tokens {} and targets {}, expected [B, {}] of both", tokens.shape(), targets.shape(),
          sequences.length);
  const auto length = static_cast<size_t>(sequences.length);
  for (int64_t b = 0; b < tokens.dim(0); ++b) {
    Rng rng(MixSeed(seed, static_cast<uint64_t>(first + b)));
    Make(sequences, rng, {tokens.at(b), length}, {targets.at(b), length});
  }
}

}  // namespace qkv::train
