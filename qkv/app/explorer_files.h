// The files of web/explorer/, embedded at build time (cmake/Embed.cmake).
#pragma once

#include <string_view>

namespace qkv::app {

std::string_view ExplorerHtml();
std::string_view ExplorerCss();
std::string_view ExplorerScript();

}  // namespace qkv::app
