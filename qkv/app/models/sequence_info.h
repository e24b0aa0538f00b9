// Facts about an encoder or a decoder of tokens, in words and as JSON.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "qkv/io/json.h"
#include "qkv/model/checkpoint/sequence_checkpoint.h"
#include "qkv/model/config/sequence_config.h"

namespace qkv::app {

/// "12 blocks of width 768, 12 heads of 64 (4 of keys), MLP 3072 (gated silu), RMSNorm before the layers, …"
std::string DescribeSequence(const model::SequenceConfig& config);

/// The same as fields of `qkv info --json`.
io::Json SequenceJson(const model::SequenceConfig& config);

/// The fields of `qkv info --json` for a sequence model of qkv train.
io::Json SequenceInfoJson(const model::SequenceCheckpoint& checkpoint);
/// The same for people: names and values, a line each.
std::vector<std::pair<std::string, std::string>> SequenceInfoLines(const model::SequenceCheckpoint& checkpoint);

}  // namespace qkv::app
