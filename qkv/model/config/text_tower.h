// The text encoder beside a Vision Transformer, which maps texts into the same space as images: its configuration, and
// how embeddings of both are compared. Not here: the forward pass (model/two_tower.h).
#pragma once

#include <cstdint>
#include <string_view>

#include "qkv/model/config/sequence_config.h"

namespace qkv::model {

/// How logits of texts for an image become probabilities.
enum class Matching {
  kSoftmax,  // exactly one of the texts fits (CLIP: Radford et al. 2021)
  kSigmoid,  // each text fits or not, whatever the others are (SigLIP: Zhai et al. 2023)
};

/// "softmax", "sigmoid"
std::string_view Name(Matching matching);

struct TextTower {
  SequenceConfig config;  // pools one token; its outputs are the embedding
  Matching matching = Matching::kSoftmax;
  bool logit_bias = false;  // added to the scaled cosines

  bool operator==(const TextTower&) const = default;
};

/// Throws Error if the encoder's configuration is not valid, does not pool, or embeds into another width than the
/// images' `width`.
void Validate(const TextTower& tower, int64_t width);

}  // namespace qkv::model
