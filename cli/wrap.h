// Text in lines for a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace qkv::cli {

/// Columns of the terminal on stdout; without one the environment's COLUMNS, else 100. At least 40.
size_t TerminalColumns();

/// Breaks text into lines of at most `columns`, after spaces (which are dropped at the break), "|" and ",". `used` are
/// the columns before the text on its first line; the other lines are indented by `indent`. A longer word has a line of
/// its own. Line ends in the text are kept.
std::string Wrap(std::string_view text, size_t columns, size_t indent = 0, size_t used = 0);

/// Columns of UTF-8 text of letters that are one column wide.
size_t CountColumns(std::string_view text);

}  // namespace qkv::cli
