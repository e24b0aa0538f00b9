// Text of strangers (names of classes, tensors, files) as it is shown: on one line, and as what it is.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace qkv {

/// The length of the UTF-8 character that text begins with, or 0 when it begins with none (Unicode 15, table 3-7).
size_t CharacterLength(std::string_view text);

/// The text with everything escaped that is no printable UTF-8: control characters (a line feed becomes "\x0a"),
/// characters that reorder the line they stand in (Unicode's bidirectional controls), line separators, and bytes that
/// are no UTF-8. So it cannot end a line, move a terminal's cursor or change its colours. Backslashes stay: a text that
/// was escaped before stays as it is.
std::string Printable(std::string_view text);

/// The same of the beginning of a text that is longer than `max_bytes`, with its length: "abc… (70000 bytes)".
std::string Printable(std::string_view text, size_t max_bytes);

}  // namespace qkv
