// Facts about an encoder or a decoder of tokens, in words and as JSON.
#pragma once

#include <string>

#include "qkv/io/json.h"
#include "qkv/model/config/sequence_config.h"

namespace qkv::app {

/// "12 blocks of width 768, 12 heads of 64 (4 of keys), MLP 3072 (gated silu), RMSNorm before the layers, …"
std::string DescribeSequence(const model::SequenceConfig& config);

/// The same as fields of `qkv info --json`.
io::Json SequenceJson(const model::SequenceConfig& config);

}  // namespace qkv::app
