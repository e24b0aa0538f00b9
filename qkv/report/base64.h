// Bytes as text, for pages that contain their pictures and arrays.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace qkv::report {

/// Base64 with padding (RFC 4648).
std::string Base64(std::span<const std::byte> bytes);

}  // namespace qkv::report
