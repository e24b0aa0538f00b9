// Which token comes next, from the logits of all.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "qkv/core/rng.h"

namespace qkv::model {

/// How the next token is drawn from the logits.
struct SamplingSettings {
  double temperature = 1;  // logits are divided by it; 0: always the greatest, the first of equals
  int64_t top_k = 0;       // only the k most probable tokens; 0: all
  double top_p = 1;        // of these, the fewest whose probabilities sum to p (nucleus sampling, Holtzman et al. 2020)
  uint64_t seed = 0;       // the same seed draws the same tokens

  /// Throws Error when a number is out of its range: temperature and top_k 0 or more, top_p above 0 and at most 1.
  void Validate() const;
};

/// Draws tokens: the same ones for the same seed and logits on every machine, up to the rounding of exp.
class TokenSampler {
 public:
  /// Throws Error as Validate.
  explicit TokenSampler(const SamplingSettings& settings);

  /// The n-th call draws the n-th number of the seed, whatever the logits are; greedily, none counts. Throws Error when
  /// there are no logits, or one is NaN or infinite.
  template <typename T>
  int32_t Draw(std::span<const T> logits);

 private:
  SamplingSettings settings_;
  Rng rng_;
  std::vector<int32_t> order_;   // tokens, most probable first
  std::vector<double> weights_;  // theirs
};

}  // namespace qkv::model
