// Reads the allocation count of allocations.h from other source files of the same test program.
#pragma once

#include <atomic>
#include <cstdint>

namespace qkv {

/// Number of calls of operator new so far, on all threads.
inline std::atomic<int64_t> g_allocations{0};

}  // namespace qkv
