// Options of the commands that write texts: how the next token is chosen, and for how long.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/arguments.h"
#include "qkv/model/sequence/generation.h"

namespace qkv::cli {

/// Options for a decoder; those that are not given stay as the model's files say.
struct DecodingOptions {
  std::optional<double> temperature, top_p, min_p, repetition_penalty, length_penalty;
  std::optional<double> top_k, beams, tokens, min_tokens, no_repeat_ngram;  // whole numbers
  uint64_t seed = 0;

  /// --temperature, --top-k, --top-p, --min-p, --seed.
  void AddSampling(Command command);
  /// --beams, --length-penalty, --tokens, --min-tokens, --no-repeat-ngram, --repetition-penalty.
  void AddSearch(Command command, std::string_view tokens);

  /// The settings, overridden by the given options.
  model::GenerationSettings Over(const model::GenerationSettings& settings) const;
};

/// Texts that ended at their greatest length, not at an end token.
struct UnfinishedTexts {
  size_t texts = 0, unfinished = 0;
  int64_t longest = 0;  // of these, in tokens

  void Add(bool ended, int64_t tokens);
  /// Says on stderr how many there are, if any.
  void Print() const;
};

}  // namespace qkv::cli
