// The error if a model's files have changed.
#pragma once

#include "qkv/core/error.h"

namespace qkv::explore {

/// The files are no longer those that the model was read from. The request is not at fault and may be repeated once the
/// model has been loaded again.
class OutdatedError : public Error {
 public:
  using Error::Error;
};

}  // namespace qkv::explore
