// Advice to the system about pages of memory.
#pragma once

#include <cstddef>
#include <span>

namespace qkv::internal {

/// madvise() for the pages, of so many bytes each, that lie whole in `part`. A hint: a system that does not take it
/// costs memory or time and nothing else.
void AdviseWholePages(std::span<const std::byte> part, size_t page, int advice);

}  // namespace qkv::internal
