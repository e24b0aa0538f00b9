// The syntax for what replaces the softmax of cross-attention (nn::CrossWeights).
#pragma once

#include <string>
#include <string_view>

#include "qkv/nn/cross_weights.h"

namespace qkv::app {

/// The syntax, for help and errors.
inline constexpr std::string_view kCrossRules =
    "RULE[:BLOCK.HEAD,…], where RULE is softmax=T, hard, uniform or gaussian=H[,SLOPE]";

/// "hard", "uniform", "softmax=0.5" (its temperature), "gaussian=2" (bandwidth in source tokens; 1 without a number) or
/// "gaussian=2,0.9" (and source tokens per target token); behind a colon the heads that it replaces, "uniform:0.3,1.0":
/// block and head, all without it. Throws Error otherwise, with `option` in front.
nn::CrossWeights ParseCrossWeights(std::string_view text, std::string_view option);

/// In words for people: "cross-attention: uniform weights in heads 0.3, 1.0"; empty if softmax stays.
std::string DescribeCrossWeights(const nn::CrossWeights& weights);

}  // namespace qkv::app
