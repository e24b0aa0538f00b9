// Continues texts by models that qkv trained on the bytes of a text (qkv/train/sequences).
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "qkv/app/texts/language.h"
#include "qkv/model/sequence/generation.h"
#include "qkv/model/sequence/sequence_model.h"

namespace qkv::app {

/// Whether the model reads and writes the bytes of texts.
bool WritesBytes(const model::SequenceConfig& config);

/// 500 bytes at temperature 1.
model::GenerationSettings ByteSettings();
/// Draws byte after byte, and passes each to `show`, which returns false to stop; nothing at first, when the model has
/// taken the prompt. When the model's length is used up, the older half is dropped. name: of the model. Throws Error,
/// which begins with "generate", for a model of something else, for settings that need a tokenizer, and for logits that
/// are not finite.
Written ContinueBytes(const model::SequenceModel<float>& model, const std::string& name, std::string prompt,
                      const model::GenerationSettings& settings, const std::function<bool(std::string_view)>& show);

}  // namespace qkv::app
