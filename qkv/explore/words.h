// The call "words": which patches of an image answer to a text, by a model with two towers.
#pragma once

#include "qkv/explore/explored_images.h"
#include "qkv/explore/explored_model.h"
#include "qkv/explore/packet.h"

namespace qkv::explore {

/// What each row of tokens after the final norm, [R, D], becomes in the space of texts if it is pooled alone, not
/// normalised: [R, width].
Tensor<float> ProjectAlone(const OpenModel& model, View<const float> tokens);

/// The cosine of each patch with "text", as if the patch were the whole image: it takes the way of the pooled vector
/// through the layers behind the pool. Throws Error for a model without a text tower, or whose pass is not open.
Packet AnswerWords(ExploredModel& model, const PreparedImage& image, const io::Json& request);

}  // namespace qkv::explore
