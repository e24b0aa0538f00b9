// What the program prints: data on stdout, everything else on stderr. Names from files are escaped (core/text.h): none
// can end a line, imitate another one, or reach the terminal as a command.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "qkv/core/error.h"
#include "qkv/io/json.h"

namespace qkv::cli {

/// Makes the three standard streams safe: a closed stream reads as empty, fails when written to, and its number is not
/// given to a file opened later. Writing to a pipe without a reader, or beyond the limit on a file's size, fails
/// instead of ending the process. Call it first.
void PrepareStreams();

/// To stdout. FlushOutput reports failed writes.
void PrintRaw(std::string_view text);
template <typename... Args>
void Print(fmt::format_string<Args...> format, Args&&... args) {
  PrintRaw(FormatShown(format, std::forward<Args>(args)...));
}
/// One line (app::JsonLine).
void PrintJsonLine(const io::Json& json);

/// Flushes stdout. Throws Error with the system's reason if that fails; ends the process as SIGPIPE does if the pipe
/// has no reader any more.
void FlushOutput();

/// To stderr. Never throws: if it cannot be written to, messages are lost and work goes on.
void PrintMessageRaw(std::string_view text) noexcept;
template <typename... Args>
void PrintMessage(fmt::format_string<Args...> format, Args&&... args) {
  PrintMessageRaw(FormatShown(format, std::forward<Args>(args)...));
}

/// To stderr: "qkv: " and a note of the library (app::Note), unless SilenceNotes was called.
void PrintNote(const std::string& text);
/// For -q: what was assumed about a model is not printed. Warnings and errors of single files are.
void SilenceNotes();
/// Whether stderr is a terminal on which a line can be overwritten: none of TERM=dumb.
bool CanOverwriteLines();

}  // namespace qkv::cli
