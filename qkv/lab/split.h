// Rewrites merged models to separate queries and keys (docs/algebra.md, note 7).
#pragma once

#include "qkv/lab/rewrite.h"

namespace qkv::lab {

/// Writes the model with W_Q and W_K of `width` features per head, balanced: equal attention, but not the original
/// weights, since M does not determine their gauge. `width` 0 is that of the values and gives kind `separate`, which
/// every library can load; another width gives kind `low_rank`. Exact up to the rounding of the stored M. Biases exist
/// if values have them; the keys' are zero. Throws Error unless the model is merged, if a head's M has a higher rank
/// than `width` (it was trained, or made from wider heads), and as WriteRewritten.
Written Split(const model::Checkpoint& checkpoint, int64_t width, const std::filesystem::path& folder,
              const WriteOptions& options);

}  // namespace qkv::lab
