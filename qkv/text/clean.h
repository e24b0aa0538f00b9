// open_clip's cleaning of a text before its tokenizer (open_clip/tokenizer.py, 3.3.0): ftfy.fix_text, html.unescape
// twice, white space, case, punctuation. Not here: ftfy's repair of text decoded in a wrong encoding ("cafÃ©"), and the
// names of HTML that HTML 4 lacks.
#pragma once

#include <string>
#include <string_view>

namespace qkv::text {

/// Every white space becomes one space, and none is at the ends.
std::string CleanWhitespace(std::string_view text);
/// The same in lower case.
std::string CleanLower(std::string_view text);
/// The same without ASCII's punctuation; an underscore is a space.
std::string CleanCanonical(std::string_view text);

}  // namespace qkv::text
