// GPT-2's configuration and names, for models in which it is the decoder of another encoder.
#pragma once

#include "qkv/io/fields.h"
#include "qkv/model/config/sequence_config.h"
#include "qkv/model/layout/tensor_names.h"

namespace qkv::model {

/// The decoder that a config.json of GPT-2 describes. Throws Error that names the key.
SequenceConfig ReadHfGpt2(const io::Fields& config);

/// The names of its tensors.
const Layout& HfGpt2Layout();

}  // namespace qkv::model
