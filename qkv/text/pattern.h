// Patterns of Oniguruma, as the tokenizers library compiles those of tokenizer.json, in PCRE2's language. Each
// construct has a row here: what has none, or means something that PCRE2 cannot do, is an error that names it and its
// place.
#pragma once

#include <string>
#include <string_view>

namespace qkv::text {

/// The same pattern for PCRE2 10.42 with PCRE2_UTF, PCRE2_UCP and line feeds as newlines. Throws Error, prefixed with
/// `where`, if `pattern` is no pattern or has something that is not supported.
std::string TranslatePattern(std::string_view pattern, std::string_view where);

}  // namespace qkv::text
