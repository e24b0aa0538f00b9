// Values of the engine as objects of Python.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <string>

#include "qkv/core/tensor.h"
#include "qkv/io/json.h"

namespace qkv::python {

namespace nb = nanobind;

/// dict, list, str, int, float, bool or None.
nb::object ToPython(const io::Json& json);

/// The same the other way; a tuple becomes a list. Throws TypeError for anything else, which it names by `what`.
io::Json ToJson(nb::handle value, const char* what);

/// A NumPy array that owns the tensor's memory.
template <typename T>
nb::object ToArray(Tensor<T> tensor);

/// A read-only NumPy array of a tensor that `owner` holds.
nb::object ViewOf(const Tensor<float>& tensor, nb::handle owner);

}  // namespace qkv::python
