// What a caller says about a model's files.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "qkv/app/open/model_entry.h"

namespace qkv::python {

/// path: a folder, a file, a name in the hub's cache or of a model that comes with qkv; empty: the built-in classifier.
/// hints: what its files leave out, by qkv.load's keywords. Throws Error, or TypeError for a value of another type.
app::ModelEntry EntryOf(const std::string& path, const nanobind::dict& hints);

/// The keys that `hints` may have, of some family.
nanobind::list HintNames();

}  // namespace qkv::python
