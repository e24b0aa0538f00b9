// /openapi.json: describes this server's routes, for people and programs.
#include "qkv/server/openapi.h"
#include "qkv/server/routes.h"
#include "qkv/server/static_answer.h"

namespace qkv::server {

void AddDescriptionRoutes(Router& router, Context&) {
  router.Add({"GET", "/openapi.json",
              [&router](Call& call) {
                static const StaticAnswer answer(DescribeRoutes(router), "application/json");
                return answer.For(call.request());
              },
              /*open=*/true, /*runs_inline=*/true});
}

}  // namespace qkv::server
