// Writes encoder-decoders in the layout of Hugging Face's Marian. Settings that the layout cannot express (another kind
// of attention, norms before the layers) have keys of qkv, "qkv_attention", "qkv_cross_attention", "qkv_attention_rank"
// and "qkv_norm_place", with the "model_type" "qkv_marian", so that transformers refuses the model instead of running
// it with weights that it makes up.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/io/json.h"
#include "qkv/model/config/sequence_config.h"

namespace qkv::model {

/// Ids of the tokens that an encoder-decoder's texts need.
struct TextTokens {
  int32_t start = 0;  // the decoder reads it first
  int32_t end = 0;    // the last of each text
  int32_t padding = 0;
};

/// Why transformers' Marian cannot run an encoder-decoder; empty if it can.
std::string HfMarianObstruction(const SequenceConfig& encoder, const SequenceConfig& decoder);

/// config.json. Throws Error if neither Marian's keys nor qkv's can express the model.
io::Json HfMarianConfig(const SequenceConfig& encoder, const SequenceConfig& decoder, const TextTokens& tokens);

/// generation_config.json: beam search of 4 beams, as OPUS-MT's.
io::Json HfMarianGeneration(const SequenceConfig& decoder, const TextTokens& tokens);

/// Names in the file of a tensor of either part by its name in the table; several hold equal parts along the first
/// axis.
std::vector<std::string> HfMarianNames(bool decoder, std::string_view canonical);

}  // namespace qkv::model
