// Texts as the tokens that metrics of translations count: Python's words, and those of mteval-v13a, which WMT uses.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace qkv::text {

/// What Python's str.split() calls white space.
bool IsPythonSpace(char32_t code);

/// The parts of valid UTF-8 between white space, as Python's str.split() gives them; views into the text.
std::vector<std::string_view> SplitWords(std::string_view text);

/// The words of sacrebleu's tokenizer "13a": punctuation stands alone, except in numbers. Invalid UTF-8 is U+FFFD.
std::vector<std::string> Tokenize13a(std::string_view text);

}  // namespace qkv::text
