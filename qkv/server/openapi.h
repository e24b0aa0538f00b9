// The description of the routes.
#pragma once

#include <string>

#include "qkv/server/router.h"

namespace qkv::server {

/// openapi.json, completed: what the routes' fields say is not in the file. A body of JSON or a form of a route with
/// fields gets their schemas, and a route that takes an image as its body their parameters.
std::string DescribeRoutes(const Router& router);

}  // namespace qkv::server
