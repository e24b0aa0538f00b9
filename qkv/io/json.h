// JSON by nlohmann's library, with our errors and limits. Checkpoints' headers have a stricter reader of their own
// (io/safetensors.cc), since a duplicate key there is an attack and here it is noise.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>

namespace qkv::io {

using Json = nlohmann::json;

/// Parses a whole document. Throws Error that begins with `where` when it is no JSON or is nested too deeply.
Json ParseJson(std::string_view text, std::string_view where);

/// The file's document. Throws Error with the path when it cannot be read, is larger than 64 MiB, or is no JSON.
Json ReadJson(const std::filesystem::path& path);

}  // namespace qkv::io
