// The error of a file that is broken, or changes under its reader.
#pragma once

#include "qkv/core/error.h"

namespace qkv {

/// A file that has been opened is not as it was, or its bytes are damaged: no request that reads it later is at fault.
class FileError : public Error {
 public:
  using Error::Error;
};

}  // namespace qkv
