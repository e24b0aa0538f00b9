// The layers of a Vit from the cache on disk: folded and packed, mapped by the next process.
#pragma once

#include <filesystem>

#include "qkv/model/blocks/cache.h"
#include "qkv/model/checkpoint/checkpoint.h"
#include "qkv/model/vision/vit.h"

namespace qkv::model {

/// The cached file of a checkpoint in `folder`: one for each path, set of options and instruction set, so that a
/// changed checkpoint overwrites its old file.
std::filesystem::path CacheFile(const Checkpoint& checkpoint, const BuildOptions& options,
                                const std::filesystem::path& folder);

/// The layers of a checkpoint: from the cache if this version of qkv cached them from the same, unchanged files;
/// otherwise built, and cached. A checkpoint from memory is always built. Throws Error only as Vit's constructor does.
Vit<float> BuildCached(const Checkpoint& checkpoint, const BuildOptions& options, const Cache& cache);

}  // namespace qkv::model
