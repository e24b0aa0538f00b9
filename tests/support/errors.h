// Catches error messages.
#pragma once

#include <string>

#include "qkv/core/error.h"

namespace qkv {

/// The message of the Error that f throws; empty if it throws none.
template <typename F>
std::string ErrorMessage(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace qkv
