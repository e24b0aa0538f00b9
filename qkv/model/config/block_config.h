// The numbers of a block (nn/block_config.h) as models have them: their names in configurations, what is allowed, and
// what they cost.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "qkv/nn/block_config.h"

namespace qkv::model {

/// No published model comes near; a number beyond is a mistake or an attack, and products of two of these still fit.
inline constexpr int64_t kMaxExtent = 1 << 20;
inline constexpr int64_t kMaxDepth = 1 << 12;

/// Throws Error, naming what it is, unless low <= value <= high.
void RequireRange(std::string_view name, int64_t value, int64_t low, int64_t high);

/// timm's names, such as "gelu_tanh"; found by those of Hugging Face too ("gelu_new", "gelu_pytorch_tanh", …).
std::string_view Name(simd::Activation activation);
std::optional<simd::Activation> FindActivation(std::string_view name);
/// What FindActivation finds, for error messages.
inline constexpr std::string_view kActivationNames = "gelu, gelu_tanh (gelu_new), quick_gelu, relu, silu, tanh";

/// The names that config.json has for them.
std::string_view Name(nn::AttentionKind kind);
std::optional<nn::AttentionKind> FindAttentionKind(std::string_view name);
/// What FindAttentionKind finds, for error messages.
inline constexpr std::string_view kAttentionKindNames =
    "separate, shared, unified, shared_kv, merged, low_rank, symmetric, gaussian or positional";

/// "layer", "rms"; "before", "after".
std::string_view Name(simd::NormKind kind);
std::string_view Name(nn::NormPlace place);
std::optional<simd::NormKind> FindNormKind(std::string_view name);
std::optional<nn::NormPlace> FindNormPlace(std::string_view name);

/// The MLP's hidden width as Python's int(width * ratio) gives it; 0, which Validate refuses, beyond all proportion.
int64_t HiddenWidth(int64_t width, double ratio);

/// Throws Error when a number is out of all proportion or two of them contradict each other.
void Validate(const nn::BlockConfig& config);

/// Multiply-adds (counted twice) of one block on `tokens` tokens; a source of cross-attention counts as many.
double Flops(const nn::BlockConfig& config, double tokens);

}  // namespace qkv::model
