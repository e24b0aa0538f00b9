// The files of web/alignment/, embedded at build time (cmake/Embed.cmake). The style is put behind web/shared.css.
#pragma once

#include <string_view>

namespace qkv::app {

std::string_view AlignmentHtml();
std::string_view AlignmentCss();
std::string_view AlignmentScript();

}  // namespace qkv::app
