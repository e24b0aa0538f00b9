// JSON as text on one line, as the program prints it and pages hold it.
#pragma once

#include <string>

#include "qkv/io/json.h"

namespace qkv::app {

/// Without a line end. Invalid UTF-8 becomes U+FFFD; control characters that JSON would leave as they are become
/// escapes.
std::string JsonLine(const io::Json& json);

/// JSON to stand in a page's script: ASCII, and no name in it ends the script.
std::string JsonInScript(const io::Json& json);

}  // namespace qkv::app
