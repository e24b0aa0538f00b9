// Measures attention heads on texts: entropy, reach, the roles of position and content, and of cross-attention how
// diagonal the alignment is. Not here: numbers from weights alone (heads.h), and images (heads_tokens.h).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "qkv/inspect/heads_tokens.h"
#include "qkv/inspect/parts.h"
#include "qkv/model/sequence/text_model.h"

namespace qkv::inspect {

/// A text as ids: those that the encoder reads, or a decoder alone, and those of a decoder that reads the encoder's.
struct TextIds {
  std::vector<int32_t> ids, target;
};

/// How often MeasureTexts calls `advance` for so many texts.
int64_t TextSteps(std::span<const AttentionPart> parts, std::span<const TextIds> texts);

/// Statistics of each part's heads. Every text runs alone. Logits are decomposed as those of images are, for
/// self-attention whose scores are bilinear, on the first tokens of the texts that have as many: as many as the median
/// text has. `model` must be that of the parts' checkpoint. Throws Error as TextModel::Forward.
std::vector<TokenStatistics> MeasureTexts(std::span<const AttentionPart> parts, const model::TextModel& model,
                                          std::span<const TextIds> texts, const std::function<void()>& advance);

}  // namespace qkv::inspect
