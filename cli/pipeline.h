// Images through a model, on all cores.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/images.h"
#include "qkv/model/model.h"

namespace qkv::cli {

enum class Wanted {
  kPixels,  // [B, channels, height, width], for callers that run the model themselves
  kLogits,  // [B, C]
  kPooled,  // [B, pooled_width]
  kTokens,  // [B, N, D]
};

struct Batch {
  std::vector<std::string> paths;  // of its images, B
  std::vector<size_t> files;       // their places in the list
  View<const float> values;        // what was wanted of them, [B, …]
};

/// Calls `use` for one batch of consecutive images after the other, in order, while others are being read and computed:
/// from any thread, but never from two. With kPixels the caller's thread has all cores for itself meanwhile.
/// A file that cannot be read, or whose answer is not finite, is named on stderr and left out; with the first of the
/// latter the block where that begins. Progress shows on a terminal's stderr.
/// Returns how many files and folders were left out. Throws Error when the model takes no images, and when so many at a
/// time would take more than MemoryLimit().
int ForEachBatch(const ImageOptions& options, const ImageList& images, const model::Model& model, Wanted wanted,
                 const std::function<void(const Batch&)>& use);

}  // namespace qkv::cli
