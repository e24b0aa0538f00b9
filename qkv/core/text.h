// UTF-8, and escaping of untrusted text (names of classes, tensors, files) for output on one line.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace qkv {

/// The length of the UTF-8 character at the beginning of the text, or 0 if there is none (Unicode 15, table 3-7).
size_t CharacterLength(std::string_view text);

/// U+FFFD, in place of what is no character.
inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

/// Appends the code point in UTF-8.
void AppendUtf8(char32_t code, std::string* to);

/// The text with everything escaped that is not printable UTF-8: control characters (a line feed becomes "\x0a"),
/// characters that reorder their line (Unicode's bidirectional controls), line separators, and invalid UTF-8. The
/// result cannot end a line, move the cursor of a terminal or change its colours. Backslashes stay, so escaped text is
/// unchanged.
std::string Printable(std::string_view text);

/// The same for the first bytes of a text that is longer than `max_bytes`, with its length: "abc… (70000 bytes)".
std::string Printable(std::string_view text, size_t max_bytes);

}  // namespace qkv
