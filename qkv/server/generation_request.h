// Fields that requests for texts share: how tokens are chosen, and where a text stops.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/model/sequence/generation.h"
#include "qkv/server/context.h"
#include "qkv/server/request_input.h"

namespace qkv::server {

/// The model's settings with the fields of the request in their place: temperature, top_k, top_p, min_p, seed,
/// max_tokens, min_tokens, beams, length_penalty, no_repeat_ngram, repetition_penalty, as the options of qkv generate.
/// Throws HttpError 400 that names the field.
model::GenerationSettings SettingsOf(const RequestInput& input, const model::GenerationSettings& settings);

/// These fields and those that SettingsOf reads.
std::vector<Field> WithDecoding(std::vector<Field> fields);

/// Texts of an encoder-decoder for sources from LanguageModel::ReadSources, in tasks whose texts × beams are those of
/// one batch, so that other clients take their turn. The seed of the i-th is options.settings.sampling.seed + i. Throws
/// as app::LanguageModel::Write, and Cancelled.
std::vector<app::Written> WriteTexts(Context& context, const Call& call,
                                     const std::shared_ptr<const LoadedModel>& model,
                                     std::span<const app::TextIds> texts, const app::WritingOptions& options);

/// The field "stop": a text or a list. Throws HttpError 400 for more than 16, an empty one, and one of over 1,000
/// bytes.
std::vector<std::string> StopsOf(const RequestInput& input);

}  // namespace qkv::server
