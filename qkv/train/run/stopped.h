// What long work throws when it was asked to stop.
#pragma once

#include "qkv/core/error.h"

namespace qkv::train {

/// Work that ended early because it was asked to, see Observer::stop.
class Stopped : public Error {
 public:
  Stopped() : Error("train: stopped before the first step") {}
};

}  // namespace qkv::train
