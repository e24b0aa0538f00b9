// The configuration of a block (nn/block_config.h) for models: names in config.json, allowed values, and costs.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "qkv/nn/block_config.h"

namespace qkv::model {

/// Far above any published model: a larger number is a mistake or an attack. Products of two such numbers do not
/// overflow.
inline constexpr int64_t kMaxExtent = 1 << 20;
inline constexpr int64_t kMaxDepth = 1 << 12;

/// Throws Error that names the value unless low <= value <= high.
void RequireRange(std::string_view name, int64_t value, int64_t low, int64_t high);

/// timm's name, such as "gelu_tanh". FindActivation accepts Hugging Face's names too ("gelu_new", "gelu_pytorch_tanh",
/// …).
std::string_view Name(simd::Activation activation);
std::optional<simd::Activation> FindActivation(std::string_view name);
/// The names that FindActivation accepts, for error messages.
inline constexpr std::string_view kActivationNames = "gelu, gelu_tanh (gelu_new), quick_gelu, relu, silu, tanh";

/// The kind's name in config.json.
std::string_view Name(nn::AttentionKind kind);
std::optional<nn::AttentionKind> FindAttentionKind(std::string_view name);
/// The names that FindAttentionKind accepts, for error messages.
inline constexpr std::string_view kAttentionKindNames =
    "separate, shared, unified, shared_kv, merged, low_rank, symmetric, gaussian, positional or differential";
/// Why differential attention has no W_Q and W_K of a head, with or without another kind's weights.
inline constexpr std::string_view kTwoMaps =
    "a head's weights are the difference of two softmaxes, each with a W_Q and a W_K of its own";

/// "layer", "rms"; "before", "after".
std::string_view Name(simd::NormKind kind);
std::string_view Name(nn::NormPlace place);
std::optional<simd::NormKind> FindNormKind(std::string_view name);
std::optional<nn::NormPlace> FindNormPlace(std::string_view name);  // "before" or "after"

/// The MLP's hidden width, as Python's int(width * ratio); 0, which Validate rejects, if it is out of range.
int64_t HiddenWidth(int64_t width, double ratio);

/// Throws Error if a number is out of range or two of them contradict each other.
void Validate(const nn::BlockConfig& config);

}  // namespace qkv::model
