// The page of `qkv attend`, built from web/app and embedded at build time (cmake/Pages.cmake).
#pragma once

#include <string_view>

namespace qkv::app {

/// One HTML file without data; built without Node.js, a page that says so.
std::string_view AttendHtml();

}  // namespace qkv::app
