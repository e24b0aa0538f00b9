// /health and /metrics: whether the server answers, and its counters.
#include "qkv/server/routes.h"

namespace qkv::server {

void AddHealthRoutes(Router& router, Context& context) {
  const Handler health = [](Call&) { return HttpResponse{.body = R"({"status": "ok"})"}; };
  for (const char* path : {"/health", "/healthz", "/livez"}) {
    router.Add({"GET", path, health, /*open=*/true, /*runs_inline=*/true});
  }
  router.Add({"GET", "/metrics",
              [&context](Call&) {
                return HttpResponse{.type = "text/plain; version=0.0.4; charset=utf-8",
                                    .body = context.metrics().Text(context.levels())};
              },
              /*open=*/false, /*runs_inline=*/true});
}

}  // namespace qkv::server
