// The explorer's page, built from web/app into the library.
#pragma once

#include <string_view>

namespace qkv::server {

/// One self-contained HTML file; built without Node.js, a page that says so.
std::string_view ServedPage();

}  // namespace qkv::server
