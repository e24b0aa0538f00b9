// /openapi.json: what this server answers, for people and programs.
#include "qkv/server/openapi_file.h"
#include "qkv/server/routes.h"

namespace qkv::server {

void AddDescriptionRoutes(Router& router, Context&) {
  router.Add({"GET", "/openapi.json", [](Call&) { return HttpResponse{.body = std::string(OpenApiJson())}; },
              /*open=*/true, /*runs_inline=*/true});
}

}  // namespace qkv::server
