// openapi.json, embedded at build time.
#pragma once

#include <string_view>

namespace qkv::server {

/// OpenAPI 3.1 of all routes.
std::string_view OpenApiJson();

}  // namespace qkv::server
