// JSON by nlohmann's library, with this project's errors and limits. The headers of checkpoints have a stricter parser
// (io/safetensors.cc), because duplicate keys there are an attack.
#pragma once

#include <fmt/core.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace qkv::io {

using Json = nlohmann::json;

/// Parses a whole document. Throws Error, prefixed with `where`, if it is not JSON or is nested too deeply.
Json ParseJson(std::string_view text, std::string_view where);

/// Parses a file. Throws Error with the path if it cannot be read, is larger than 64 MiB, or is not JSON.
Json ReadJson(const std::filesystem::path& path);

/// Limits on a document's use of the parser.
struct JsonLimits {
  int depth = 64;                         // nesting of arrays and objects
  size_t token_bytes = size_t{16} << 20;  // of one string or number: the parser copies each one several times
  size_t values = size_t{4} << 20;        // separated by commas: each takes up to about 100 bytes once parsed
};

/// Scans the text once. Throws Error, prefixed with `where`, if parsing `text` would exceed `limits`, or if it contains
/// a zero byte, which nlohmann's parser takes for the end.
void CheckJsonLimits(std::string_view text, const JsonLimits& limits, std::string_view where);

/// nlohmann's message without its code, clipped: it repeats the offending token, which may be long.
std::string JsonErrorReason(const Json::exception& error);

/// A name from a file, for messages: quoted, control characters escaped, clipped if very long. It is made when it is
/// formatted, so that a check that holds costs nothing; `name` must live until then.
struct Quoted {
  explicit Quoted(std::string_view text) : name(text) {}

  std::string_view name;
};

}  // namespace qkv::io

template <>
struct fmt::formatter<qkv::io::Quoted> : fmt::formatter<std::string_view> {
  fmt::format_context::iterator format(const qkv::io::Quoted& quoted, fmt::format_context& context) const;
};
