// The error of a request that meets a model whose files have changed.
#pragma once

#include "qkv/core/error.h"

namespace qkv::explore {

/// Files are no longer those that a model was read from: whoever asked is not at fault, and may ask again once the
/// model has been loaded again.
class OutdatedError : public Error {
 public:
  using Error::Error;
};

}  // namespace qkv::explore
