// Decompression of gzip, bounded.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace qkv::io {

bool IsGzip(std::span<const std::byte> bytes);
/// Throws Error, prefixed with `where`, for damaged or truncated data, and for more than `max_bytes` or the memory
/// limit.
std::string Gunzip(std::span<const std::byte> bytes, size_t max_bytes, std::string_view where);
/// Decompresses the first `count` bytes, or fewer if the data is shorter. Throws Error for damaged data.
std::string GunzipFirst(std::span<const std::byte> bytes, size_t count, std::string_view where);

}  // namespace qkv::io
