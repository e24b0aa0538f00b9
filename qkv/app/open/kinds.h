// Kinds of models, and which commands take them: one table for all messages.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "qkv/model/checkpoint/kind.h"

namespace qkv::app {

using model::ModelKind;

/// The kind of the model at a path or with an id of the hub (hub.h); an empty path is the built-in model, kImages.
ModelKind KindOf(const std::string& path);

/// Whether it is this one.
inline bool IsTextModel(const std::string& path) { return KindOf(path) == ModelKind::kTexts; }

/// Throws Error if the model is of none of these kinds: it says what the model is, what `command` expects, and which
/// commands take it. For a type that no family has it lists the supported types of the model's kind.
void RequireKind(std::string_view command, const std::string& path, std::initializer_list<ModelKind> expected);

/// The same as a sentence, for a model of this kind that is called `name`: "NAME is a text model, expected …".
std::string KindMismatch(const std::string& name, ModelKind kind, std::initializer_list<ModelKind> expected);

}  // namespace qkv::app
