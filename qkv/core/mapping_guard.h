// What keeps a mapped file that becomes shorter from ending the process, see MappedFile. Not for others.
#pragma once

#include <cstddef>
#include <span>

namespace qkv::internal {

/// From now on a page of the mapping that the file no longer has reads as zeros. Returns what the other two take, or -1
/// when there are too many mappings. May be called from several threads.
int GuardMapping(std::span<const std::byte> mapping);
/// Before it is unmapped.
void ForgetMapping(int guard);
/// Whether a page was missing.
bool HasFaulted(int guard);

}  // namespace qkv::internal
