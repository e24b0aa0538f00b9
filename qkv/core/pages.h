// Advice to the system about pages of memory.
#pragma once

#include <cstddef>
#include <span>

namespace qkv::internal {

/// madvise() for the whole pages in `part`, each of so many bytes. A hint: if the system ignores it, only memory or
/// time is lost.
void AdviseWholePages(std::span<const std::byte> part, size_t page, int advice);

}  // namespace qkv::internal
