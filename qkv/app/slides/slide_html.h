// The zoomable page of a slide, built from web/app and embedded at build time (cmake/Pages.cmake).
#pragma once

#include <string_view>

namespace qkv::app {

/// One HTML file without data; built without Node.js, a page that says so.
std::string_view SlideHtml();

}  // namespace qkv::app
