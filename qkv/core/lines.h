// Text files as lines, from a file or standard input.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace qkv {

/// Without spaces, tabs and ends of lines at both ends.
std::string_view Trim(std::string_view text);

/// Without the byte order mark of UTF-8 that some editors put in front.
std::string_view WithoutByteOrderMark(std::string_view text);

/// All of standard input. Throws Error for more than max_bytes: "WHAT on standard input has more than N bytes; ADVICE".
std::string ReadStandardInput(size_t max_bytes, std::string_view what, std::string_view advice);

/// The bytes of a file, or of standard input if it is "-". Throws Error as ReadFile or ReadStandardInput.
std::string ReadFileOrInput(const std::filesystem::path& file, size_t max_bytes, std::string_view what);

/// The lines of a text, views into it: without a byte order mark, and without "\n" or "\r\n". Line i has the number
/// i + 1. What follows the last "\n" is a line unless it is empty.
std::vector<std::string_view> SplitLines(std::string_view text);

/// The same without empty lines at the end. Throws Error for a text in UTF-16 or UTF-32, which a mark or zero bytes
/// show.
std::vector<std::string_view> SplitFilledLines(std::string_view text);

}  // namespace qkv
