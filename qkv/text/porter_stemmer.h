// English words without their endings (Porter 1980), with the changes of NLTK's stemmer, which rouge-score uses.
#pragma once

#include <string>
#include <string_view>

namespace qkv::text {

/// word: lower-case ASCII letters and digits.
std::string PorterStem(std::string_view word);

}  // namespace qkv::text
