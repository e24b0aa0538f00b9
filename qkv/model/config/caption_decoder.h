// The decoder beside a Vision Transformer that writes texts about images: its configuration and its settings of
// generation. Not here: the forward pass (model/caption_model.h).
#pragma once

#include <cstdint>
#include <string>

#include "qkv/model/config/sequence_config.h"
#include "qkv/model/config/text_description.h"

namespace qkv::model {

struct CaptionDecoder {
  std::string architecture;  // class of the whole model, such as "VisionEncoderDecoderModel"
  std::string model_type;    // of the decoder, such as "gpt2"
  SequenceConfig config;     // causal; its cross-attention reads the encoder's tokens
  bool projection = false;   // a linear layer brings the encoder's tokens to the width that cross-attention reads
  GenerationDefaults generation;

  bool operator==(const CaptionDecoder&) const = default;
};

/// Throws Error if the decoder's configuration is not valid, does not write texts, or does not read tokens of this
/// `width`, the encoder's.
void Validate(const CaptionDecoder& decoder, int64_t width);

}  // namespace qkv::model
