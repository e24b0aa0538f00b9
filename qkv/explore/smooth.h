// The call "smooth": from Gaussian smoothing to attention in five steps, for one query over an image's patches
// (lab/claims/associative_memory.h has their common form).
#pragma once

#include "qkv/explore/explored_images.h"
#include "qkv/explore/explored_model.h"
#include "qkv/explore/packet.h"

namespace qkv::explore {

/// "step": 0 Gaussian smoothing by distance, 1 hard dictionary of raw patches, 2 soft dictionary with a temperature,
/// 3 scaled dot product of one head, 4 all heads. "query": [row, column] of the patch.
Packet AnswerSmooth(ExploredModel& model, const PreparedImage& image, const io::Json& request);

}  // namespace qkv::explore
