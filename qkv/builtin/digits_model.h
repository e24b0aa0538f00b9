// The digit classifier inside the binary, as a model.
#pragma once

#include "qkv/model/model.h"

namespace qkv::builtin {

/// The classifier of models/digits, built from the bytes inside the binary: 10 classes, handwritten digits of any size,
/// dark on bright or bright on dark.
model::Model DigitsModel(const model::BuildOptions& options = {});

}  // namespace qkv::builtin
