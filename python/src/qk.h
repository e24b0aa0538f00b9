// qkv.qk: the algebra of queries and keys.
#pragma once

#include <nanobind/nanobind.h>

namespace qkv::python {

void BindQk(nanobind::module_& module);        // qk.cc: on arrays
void BindQkModels(nanobind::module_& module);  // qk_models.cc: on models

}  // namespace qkv::python
