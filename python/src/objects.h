// Values of the engine as objects of Python.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <array>
#include <string>

#include "qkv/app/capture/capture.h"
#include "qkv/core/tensor.h"
#include "qkv/io/json.h"

namespace qkv::python {

namespace nb = nanobind;

/// dict, list, str, int, float, bool or None. Bytes that are no UTF-8 (of paths) are escaped as by os.fsdecode.
nb::object ToPython(const io::Json& json);

/// The same the other way; a tuple becomes a list. Throws TypeError for anything else, which it names by `what`.
io::Json ToJson(nb::handle value, const char* what);

/// Throws TypeError: "`what`: expected `expected`, got `value`".
[[noreturn]] void ThrowTypeError(nb::handle value, const char* what, const char* expected);

/// The value as T, whose caster is included. Throws as ThrowTypeError.
template <typename T>
T ValueOf(nb::handle value, const char* what, const char* expected) {
  T result;
  if (value.is_none() || !nb::try_cast(value, result)) ThrowTypeError(value, what, expected);
  return result;
}

/// A name of a file, whose bytes need not be UTF-8: as os.fsencode and os.fsdecode.
std::string PathOf(nb::handle name);
nb::str ToPathName(const std::string& path);

/// A message of the engine with keywords of Python in place of options of the command line (qkv/_wording.py).
nb::str InKeywords(const std::string& message);

/// A shape as nb::ndarray takes it; the rank is the shape's.
std::array<size_t, Shape::kMaxRank> ExtentsOf(const Shape& shape);

/// Keeps a tensor for an array that refers to its memory, which does not move.
template <typename T>
nb::capsule OwnerOf(Tensor<T> tensor);

/// A NumPy array that owns the tensor's memory.
template <typename T>
nb::object ToArray(Tensor<T> tensor);

/// The outputs of a pass by name.
nb::dict ToArrays(app::Captured captured);

/// A read-only NumPy array of a tensor that `owner` holds.
nb::object ViewOf(const Tensor<float>& tensor, nb::handle owner);

}  // namespace qkv::python
