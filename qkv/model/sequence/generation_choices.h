// What a caller says about generation, over what the model's files say.
#pragma once

#include <cstdint>
#include <optional>

#include "qkv/model/sequence/generation.h"

namespace qkv::model {

/// What is not given stays as the model's files say (GenerationSettings has the meanings).
struct GenerationChoices {
  std::optional<int64_t> max_tokens, min_tokens, beams, no_repeat_ngram, top_k;
  std::optional<double> temperature, top_p, min_p, length_penalty, repetition_penalty;
  uint64_t seed = 0;

  /// The settings, overridden. Beam search and sampling exclude each other: a choice of one switches off the other of
  /// the model's files.
  GenerationSettings Over(GenerationSettings settings) const;
};

}  // namespace qkv::model
