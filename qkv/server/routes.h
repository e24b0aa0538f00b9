// The routes of the server, by their protocols.
#pragma once

#include "qkv/server/context.h"
#include "qkv/server/router.h"

namespace qkv::server {

/// All of them. The context outlives the router.
void AddRoutes(Router& router, Context& context);

void AddHealthRoutes(Router& router, Context& context);     // /health, /metrics
void AddModelRoutes(Router& router, Context& context);      // /v1/models
void AddImageRoutes(Router& router, Context& context);      // /v1/classify
void AddEmbeddingRoutes(Router& router, Context& context);  // /v1/embeddings

}  // namespace qkv::server
