// The files of web/report/ and web/shared.css, embedded at build time (cmake/Embed.cmake).
#pragma once

#include <string_view>

namespace qkv::report {

/// The style of all pages, before that of each.
std::string_view SharedCss();
std::string_view PageHtml();
std::string_view PageCss();
/// The style of every chart.
std::string_view ChartCss();

}  // namespace qkv::report
