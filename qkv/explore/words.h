// The call "words": which patches of an image match a text, by a model with two towers.
#pragma once

#include "qkv/explore/explored_images.h"
#include "qkv/explore/explored_model.h"
#include "qkv/explore/packet.h"

namespace qkv::explore {

/// Each row of tokens after the final norm, [R, D], projected to the space of texts as if it were pooled alone, not
/// normalised: [R, width].
Tensor<float> ProjectAlone(const OpenModel& model, View<const float> tokens);

/// The cosine of each patch with "text", as if the patch were the whole image: it passes through the layers behind the
/// pool, as the pooled vector does. Throws Error for a model without a text tower, or whose passes cannot be edited.
Packet AnswerWords(ExploredModel& model, const PreparedImage& image, const io::Json& request);

}  // namespace qkv::explore
