// Keeps the process alive when a mapped file is truncated, see MappedFile. For internal use.
#pragma once

#include <cstddef>
#include <span>

namespace qkv::internal {

/// From now on, pages of the mapping that the file no longer has read as zeros. Returns the handle for the other two
/// functions, or -1 when there are too many mappings. Thread-safe.
int GuardMapping(std::span<const std::byte> mapping);
/// Call it before unmapping.
void ForgetMapping(int guard);
/// Whether a page was missing.
bool HasFaulted(int guard);

}  // namespace qkv::internal
