// The alphabet of byte-level BPE (GPT-2): a printable character for each byte.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace qkv::text {

/// Appends the character of each byte: those of printable Latin-1 stand for themselves, the others, in order, are
/// U+0100, U+0101, …; a space becomes "Ġ".
void AppendByteCharacters(std::string_view bytes, std::string* to);

/// The byte of a character, if it is one of the 256.
std::optional<char> ByteOfCharacter(char32_t code);

}  // namespace qkv::text
