// Training, evaluation and comparisons.
#pragma once

#include <nanobind/nanobind.h>

namespace qkv::python {

void BindTraining(nanobind::module_& module);

}  // namespace qkv::python
