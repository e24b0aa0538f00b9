// Text on standard input.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace qkv::cli {

/// All of it. Throws Error for more than max_bytes: "WHAT on standard input has more than N bytes; ADVICE".
std::string ReadStandardInput(size_t max_bytes, std::string_view what, std::string_view advice);

}  // namespace qkv::cli
