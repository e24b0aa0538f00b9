// Texts that an encoder-decoder writes for many sources: batches of sources of similar lengths, on all cores. Not here:
// the search itself (generation.h).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "qkv/model/sequence/generation.h"
#include "qkv/model/sequence/text_model.h"

namespace qkv::model {

/// A text for each source, none of which depends on the others. sources: ids, 1 to the encoder's length each; start:
/// the decoder's first token; together: sources of a batch, which a thread writes; one batch alone is written on the
/// calling thread. settings.seeds, if any, are of each source. `stop` is polled from any thread, before each batch and
/// as Generate does; once it returns true, the remaining texts stay as they are. Throws Error that names the source if
/// its length or an id is out of range, if the model is no encoder-decoder, and as Generate.
std::vector<Generated> GenerateFromSources(const TextModel& model, std::span<const std::vector<int32_t>> sources,
                                           int32_t start, const GenerationSettings& settings, int64_t together = 16,
                                           const std::function<bool()>& stop = {},
                                           const std::function<void(int64_t done)>& progress = {});

}  // namespace qkv::model
