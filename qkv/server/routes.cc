#include "qkv/server/routes.h"

namespace qkv::server {

void AddRoutes(Router& router, Context& context) {
  AddHealthRoutes(router, context);
  AddModelRoutes(router, context);
  AddImageRoutes(router, context);
  AddEmbeddingRoutes(router, context);
}

}  // namespace qkv::server
