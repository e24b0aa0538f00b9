// What people call a model.
#pragma once

#include <string>
#include <string_view>

namespace qkv::app {

/// Of the model in this folder or file: the last part of the path, with the one before it if every run or snapshot has
/// such a part ("run/best"). "" is the built-in digit classifier.
std::string ModelTitle(std::string_view path);

}  // namespace qkv::app
