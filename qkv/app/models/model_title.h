// Display name of a model.
#pragma once

#include <string>
#include <string_view>

namespace qkv::app {

/// The last part of the model's path, a folder or file, with the one before it if every run or snapshot has such a part
/// ("run/best"). "" is the built-in digit classifier.
std::string ModelTitle(std::string_view path);

}  // namespace qkv::app
