// JSON by nlohmann's library, with our errors and limits. Checkpoints' headers have a stricter reader of their own
// (io/safetensors.cc), since a duplicate key there is an attack and here it is noise.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace qkv::io {

using Json = nlohmann::json;

/// Parses a whole document. Throws Error that begins with `where` when it is no JSON or is nested too deeply.
Json ParseJson(std::string_view text, std::string_view where);

/// The file's document. Throws Error with the path when it cannot be read, is larger than 64 MiB, or is no JSON.
Json ReadJson(const std::filesystem::path& path);

/// What a document may ask of the parser.
struct JsonLimits {
  int depth = 64;                         // of nested arrays and objects
  size_t token_bytes = size_t{16} << 20;  // of one string or number: the parser copies each one several times
  size_t values = size_t{4} << 20;        // separated by commas: each takes up to about 100 bytes once parsed
};

/// One quick pass that throws Error, beginning with `where`, when parsing `text` would take more than `limits` allow,
/// or when it holds a zero byte (which nlohmann's parser takes for the end, so that junk could hide behind it).
void CheckJsonLimits(std::string_view text, const JsonLimits& limits, std::string_view where);

/// nlohmann's message without its code, and clipped: it repeats the offending token, whatever its length.
std::string ReasonOf(const Json::exception& error);

/// A name out of a file as messages show it: quoted, control characters escaped, clipped when very long.
std::string Quoted(std::string_view name);

}  // namespace qkv::io
