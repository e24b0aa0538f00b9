// How much memory a request may take, held against an estimate before anything is allocated: a small file must not be
// able to ask for all of a machine.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace qkv {

/// Bytes that one request (a model and its activations, a prompt, an archive) may take: half of what the machine, or
/// the control group that the process is in, has, unless set.
int64_t MemoryLimit();
/// Throws Error when `bytes` < 1.
void SetMemoryLimit(int64_t bytes);

/// Throws Error that says what would take how much, and what may be given instead, when `bytes` (an estimate; what
/// overflows counts as infinite) are more than the limit. `what` begins it: "model.safetensors: the activations".
void RequireMemory(double bytes, std::string_view what);

/// "7.1 GB", "340 MB", "12 kB"
std::string FormatBytes(double bytes);

}  // namespace qkv
