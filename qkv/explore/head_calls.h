// The calls about the weights of heads: spectra and symmetry, and the freedom that W_Q and W_K have.
#pragma once

#include "qkv/explore/explored_images.h"
#include "qkv/explore/explored_model.h"
#include "qkv/explore/packet.h"

namespace qkv::explore {

/// "heads": numbers of every head's circuits (inspect/heads.h).
Packet AnswerHeads(ExploredModel& model);

/// "gauge": W_Q and W_K of a head before and after a change of gauge with this "strength" and "seed". image: on which
/// the greatest difference of the attention is measured, or null.
Packet AnswerGauge(ExploredModel& model, const PreparedImage* image, const io::Json& request);

}  // namespace qkv::explore
