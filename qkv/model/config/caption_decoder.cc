#include "qkv/model/config/caption_decoder.h"

#include "qkv/core/error.h"

namespace qkv::model {

void Validate(const CaptionDecoder& d, int64_t width) {
  const SequenceConfig& c = d.config;
  Validate(c);
  Require(c.block.cross.has_value() && c.causal && c.outputs > 0,
          "config: a decoder that writes about images is causal, has logits, and cross-attention to read the encoder");
  const int64_t source = c.block.cross->source(c.block.width);
  Require(d.projection || source == width,
          "config: the decoder reads tokens of width {}, and the image encoder's are {}; expected equal widths", source,
          width);
}

}  // namespace qkv::model
