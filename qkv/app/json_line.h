// JSON as text on one line, as the program prints it.
#pragma once

#include <string>

#include "qkv/io/json.h"

namespace qkv::app {

/// Without a line end. Invalid UTF-8 becomes U+FFFD; control characters that JSON would leave as they are become
/// escapes.
std::string JsonLine(const io::Json& json);

}  // namespace qkv::app
