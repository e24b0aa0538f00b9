// The files of web/report/, embedded at build time (cmake/Embed.cmake).
#pragma once

#include <string_view>

namespace qkv::report {

std::string_view PageHtml();
std::string_view PageCss();
/// The style of every chart.
std::string_view ChartCss();

}  // namespace qkv::report
