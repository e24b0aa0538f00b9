// Merged models back to queries and keys of their own (note 7).
#pragma once

#include "qkv/lab/rewrite.h"

namespace qkv::lab {

/// Writes the model with W_Q and W_K of `width` features a head, balanced: equal attention, not equal weights, since M
/// does not know its gauge. `width` 0 is that of the values, which is kind `separate`, and every library can load it;
/// another one is kind `low_rank`. Exact up to the rounding that M was stored with. Biases stand there iff values have
/// them; the keys' are zero.
/// Throws Error unless the model is merged, when the M of a head has a higher rank than `width` (it was trained, or
/// made of wider heads), and as WriteRewritten.
Written Split(const model::Checkpoint& checkpoint, int64_t width, const std::filesystem::path& folder,
              const WriteOptions& options);

}  // namespace qkv::lab
