// Bytes as text, for pages and messages that contain pictures and arrays.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace qkv::report {

/// Base64 with padding (RFC 4648).
std::string Base64(std::span<const std::byte> bytes);

/// The bytes of base64, with or without padding; spaces and line ends are skipped, and the digits of URLs (-_) taken.
/// Nothing if it is none.
std::optional<std::string> FromBase64(std::string_view text);

}  // namespace qkv::report
