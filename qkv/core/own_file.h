// Where this code was loaded from, beside which its data lie.
#pragma once

#include <filesystem>

namespace qkv {

/// The program, or the shared library that holds this code, such as a module of Python. Throws
/// std::filesystem::filesystem_error if the system does not say.
std::filesystem::path OwnFile();

}  // namespace qkv
