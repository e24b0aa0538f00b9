// What one source of a test counts by allocations.h, for the others of the same program.
#pragma once

#include <atomic>
#include <cstdint>

namespace qkv {

/// Calls of operator new so far, on all threads.
inline std::atomic<int64_t> g_allocations{0};

}  // namespace qkv
