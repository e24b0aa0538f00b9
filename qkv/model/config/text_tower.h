// The text encoder beside a Vision Transformer, which maps texts into the same space as images: its configuration, and
// how embeddings of both are compared. Not here: the forward pass (model/two_tower.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
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

/// Cleaning of a text before its tokenizer (qkv/text/clean.h).
enum class TextCleaning { kNone, kWhitespace, kLower, kCanonical };

/// How texts become ids, where the tokenizer's own files do not say it.
struct TextPreparation {
  TextCleaning cleaning = TextCleaning::kNone;
  std::optional<int32_t> padding_id;  // behind a text's end; unset: the tokenizer's
  bool hides_separator = false;       // the tokenizer's separator becomes id 0
  std::string unsupported;            // a setting that qkv does not know; empty: none

  bool operator==(const TextPreparation&) const = default;
};

struct TextTower {
  SequenceConfig config;  // pools one token; its outputs are the embedding
  Matching matching = Matching::kSoftmax;
  bool logit_bias = false;  // added to the scaled cosines
  TextPreparation preparation;

  bool operator==(const TextTower&) const = default;
};

/// Throws Error if the encoder's configuration is not valid, does not pool, or embeds into another width than the
/// images' `width`.
void Validate(const TextTower& tower, int64_t width);

}  // namespace qkv::model
