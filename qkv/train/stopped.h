// Exception of long work that was stopped on request.
#pragma once

#include "qkv/core/error.h"

namespace qkv::train {

/// Thrown by work that observer.stop ended early, see Observer::stop.
class Stopped : public Error {
 public:
  Stopped() : Error("train: stopped before the first step") {}
};

}  // namespace qkv::train
