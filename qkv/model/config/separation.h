// Whether attention of another kind can be expressed by separate queries, keys and values.
#pragma once

#include <string>

#include "qkv/model/config/vit_config.h"

namespace qkv::model {

/// The configuration with separate queries, keys and values of equal width.
VitConfig AsSeparate(VitConfig config);

/// Why the model cannot be expressed this way; empty if it can. Queries and keys narrower than values are padded with
/// zeros.
std::string SeparationObstruction(const VitConfig& config);

/// Why no W_Q and W_K of a head give its scores; empty if they do.
std::string PairObstruction(nn::AttentionKind kind);

}  // namespace qkv::model
