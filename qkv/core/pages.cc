#include "qkv/core/pages.h"

#include <sys/mman.h>

#include <cstdint>

namespace qkv::internal {

void AdviseWholePages(std::span<const std::byte> part, size_t page, int advice) {
  const auto begin = reinterpret_cast<uintptr_t>(part.data());
  const uintptr_t first = (begin + page - 1) / page * page, end = (begin + part.size()) / page * page;
  if (first < end) (void)::madvise(reinterpret_cast<void*>(first), end - first, advice);
}

}  // namespace qkv::internal
