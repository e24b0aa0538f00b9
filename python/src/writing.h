// Choices of generation from keywords of Python.
#pragma once

#include <nanobind/nanobind.h>

#include "qkv/model/sequence/generation_choices.h"

namespace qkv::python {

/// Keys are the members of GenerationChoices. Throws TypeError for another key, or a value of another type.
model::GenerationChoices ChoicesOf(const nanobind::dict& choices);

}  // namespace qkv::python
