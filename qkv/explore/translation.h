// The call "translate": an encoder-decoder's translation of a text, with the cross-attention of every block and head,
// optionally with another rule in place of its softmax.
#pragma once

#include "qkv/explore/explored_model.h"
#include "qkv/explore/packet.h"

namespace qkv::explore {

/// Throws Error for a model that is no encoder-decoder, an unknown rule, and an empty or too long text.
Packet AnswerTranslate(ExploredModel& model, const io::Json& request);

}  // namespace qkv::explore
