// Attention on arrays, for module.cc.
#pragma once

#include <nanobind/nanobind.h>

namespace qkv::python {

void BindAttentionFunctions(nanobind::module_& module);

}  // namespace qkv::python
