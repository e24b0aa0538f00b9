// The memory limit of a request, compared with an estimate before anything is allocated, so that a small file cannot
// exhaust the memory of the machine.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace qkv {

/// Limit in bytes of one request (a model and its activations, a prompt, an archive). The default is half of the memory
/// of the machine or of the process's control group.
int64_t MemoryLimit();
/// Throws Error when `bytes` < 1.
void SetMemoryLimit(int64_t bytes);

/// Throws Error when `bytes`, an estimate, exceeds the limit (overflow counts as infinite). The message begins with
/// `what` ("model.safetensors: the activations") and has the size and the limit.
void RequireMemory(double bytes, std::string_view what);

/// "7.1 GB", "340 MB", "12 kB"
std::string FormatBytes(double bytes);

}  // namespace qkv
