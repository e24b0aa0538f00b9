// Choices of generation from keywords of Python.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>

#include "qkv/model/sequence/generation_choices.h"

namespace qkv::python {

/// Keys are the members of GenerationChoices, and max_length: max_tokens with `begin` tokens before them, those of the
/// prompt or the one that begins a text. Throws TypeError for another key, or a value of another type.
model::GenerationChoices ChoicesOf(const nanobind::dict& choices, int64_t begin = 1);

}  // namespace qkv::python
