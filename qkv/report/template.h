// Templates of pages: text with placeholders.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace qkv::report {

/// The text with each {{NAME}} replaced by its value, which is inserted as it is and not searched for placeholders.
/// Throws Error for a placeholder without a value, for one that does not end, and for a value without a placeholder.
std::string FillTemplate(std::string_view text,
                         std::initializer_list<std::pair<std::string_view, std::string_view>> values);

/// A file without the line end that text files have at their end.
std::string_view WithoutLastLineEnd(std::string_view text);

}  // namespace qkv::report
