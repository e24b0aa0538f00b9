// What the program says: data on stdout, everything else on stderr. Names out of files are shown as they are
// (core/text.h): none can end a line, forge another, or reach the terminal as a command.
#pragma once

#include <string_view>
#include <utility>

#include "qkv/core/error.h"
#include "qkv/io/json.h"

namespace qkv::cli {

/// Makes the three standard streams safe to use: one that is closed reads as empty, fails when written to, and cannot
/// become a file that is opened later. Writing to a pipe that nobody reads, or beyond the limit on a file's size, fails
/// instead of ending the process. Before anything else.
void PrepareStreams();

/// To stdout. What cannot be written, FlushOutput says.
void PrintRaw(std::string_view text);
template <typename... Args>
void Print(fmt::format_string<Args...> format, Args&&... args) {
  PrintRaw(FormatShown(format, std::forward<Args>(args)...));
}
/// One line. Names that are no UTF-8 get U+FFFD for what is not.
void PrintJsonLine(const io::Json& json);

/// Sends on what was printed. Throws Error, with the system's reason, when it cannot be written; ends the process as
/// SIGPIPE does when nobody reads the pipe any more.
void FlushOutput();

/// To stderr. Never throws: where it cannot be written to, messages are lost and work goes on.
void PrintMessageRaw(std::string_view text) noexcept;
template <typename... Args>
void PrintMessage(fmt::format_string<Args...> format, Args&&... args) {
  PrintMessageRaw(FormatShown(format, std::forward<Args>(args)...));
}

}  // namespace qkv::cli
