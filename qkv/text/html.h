// Character references of HTML in text ("&amp;", "&#39;", "&copy"). The names are HTML 4's, not all 2 000 of HTML 5.
#pragma once

#include <string>
#include <string_view>

namespace qkv::text {

/// As Python's html.unescape: references also without their semicolon where HTML allows it. `text` must be valid UTF-8.
std::string UnescapeHtml(std::string_view text);

/// As ftfy.fixes.unescape_html: references with their semicolon only, and also names in capitals ("&EACUTE;").
std::string UnescapeTerminatedHtml(std::string_view text);

}  // namespace qkv::text
