// The call "translate": a text that a pair of encoder and decoder writes of another, with the cross-attention of every
// block and head, and perhaps another rule in place of its softmax.
#pragma once

#include "qkv/explore/explored_model.h"
#include "qkv/explore/packet.h"

namespace qkv::explore {

/// Throws Error for a model that is no pair, a rule that is none, and an empty or too long text.
Packet AnswerTranslate(ExploredModel& model, const io::Json& request);

}  // namespace qkv::explore
