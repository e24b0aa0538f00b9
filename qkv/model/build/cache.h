// Finished models on disk: folded, packed, and mapped by the next process that asks for the same.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>

#include "qkv/model/checkpoint/checkpoint.h"
#include "qkv/model/vit.h"

namespace qkv::model {

/// Where finished models are kept. Whatever is wrong there (no room, no right, a broken file) never keeps a model from
/// being built: it is only noted.
struct Cache {
  std::filesystem::path folder = {};                       // made when it is not there; empty: no cache
  std::function<void(const std::string& text)> note = {};  // told why a file was not used, or not kept; or empty
  // A model whose files changed later than this is not kept: another change could leave the same time behind.
  std::chrono::nanoseconds rest = std::chrono::milliseconds(100);
  // Reads all bytes of the model and of what was kept, and uses it only where both have the checksums of when it was
  // kept: finds bits that flipped on disk, and weights changed through a mapping, which moves no time until it is
  // written back. Without it names, shapes, the first bytes of each tensor, sizes and times are compared.
  bool verify = false;
};

/// $QKV_CACHE, else $XDG_CACHE_HOME/qkv, else $HOME/.cache/qkv; empty when none of them is set.
std::filesystem::path CacheFolder();

/// The file in `folder` that a checkpoint's finished layers are kept in: one for each path, choice of options and
/// instruction set, so that a checkpoint that changes takes its old file's place.
std::filesystem::path CacheFile(const Checkpoint& checkpoint, const BuildOptions& options,
                                const std::filesystem::path& folder);

/// The layers of a checkpoint: out of the cache when they were kept there by this version of qkv from the same files,
/// unchanged; otherwise built, and kept for the next time. A checkpoint from memory is always built.
/// Throws Error only as Vit's constructor does.
Vit<float> BuildCached(const Checkpoint& checkpoint, const BuildOptions& options, const Cache& cache);

}  // namespace qkv::model
