// What the process that reads a slide gives up. Internal to qkv/openslide.
#pragma once

#include <cstdint>

/// No dumps of its memory, no tracing by others, no files that grow, no rights from programs, `address_space` bytes.
/// What the system refuses stays as it was.
void LimitResources(uint64_t address_space);

/// From here on the process can read files and have memory, and no more: no network, no new process or thread, no file
/// opened for writing, no signal to others. Other calls fail with EPERM. Where the kernel or the processor has no such
/// filter, nothing changes.
void LimitSystemCalls();
