// Attention of texts as files: a picture, arrays with their tokens, JSON, or a page to explore.
#pragma once

#include <filesystem>
#include <string>

#include "qkv/app/attention/text_attention.h"

namespace qkv::app {

/// The file beside a .npy that has its Facts: NAME.tokens.json.
std::filesystem::path TokensFileOf(const std::filesystem::path& npy);

/// Writes the file, whole or not at all. .npy has the weights, [layers, heads, T, N], and TokensFileOf their tokens;
/// .safetensors has "weights" and, as metadata, Facts, whose lists are JSON.
void WriteTextAttention(const TextAttention& attention, MapFormat format, const std::filesystem::path& file);

}  // namespace qkv::app
