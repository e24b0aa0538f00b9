// The cache of built models (blocks/cache.h) for text models.
#pragma once

#include <filesystem>

#include "qkv/model/blocks/cache.h"
#include "qkv/model/sequence/text_model.h"

namespace qkv::model {

/// As for a Checkpoint.
std::filesystem::path CacheFile(const TextCheckpoint& checkpoint, const BuildOptions& options,
                                const std::filesystem::path& folder);

/// The model of a checkpoint: its layers from the cache if this version of qkv cached them from the same, unchanged
/// files; otherwise built, and cached. Throws Error only as TextModel's constructor does.
TextModel BuildCached(const TextCheckpoint& checkpoint, const BuildOptions& options, const Cache& cache);

}  // namespace qkv::model
