#include "qkv/core/fork.h"

#ifndef __EMSCRIPTEN__
#include <pthread.h>
#endif

namespace qkv::internal {
namespace {

constinit std::atomic<uint32_t> g_forks{0};

#ifndef __EMSCRIPTEN__
[[maybe_unused]] const int g_at_fork =
    ::pthread_atfork(nullptr, nullptr, [] { g_forks.fetch_add(1, std::memory_order_relaxed); });
#endif

}  // namespace

uint32_t Forks() { return g_forks.load(std::memory_order_relaxed); }

}  // namespace qkv::internal
