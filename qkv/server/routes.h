// The routes of the server, by their protocols.
#pragma once

#include "qkv/server/context.h"
#include "qkv/server/router.h"

namespace qkv::server {

/// All of them. The context outlives the router.
void AddRoutes(Router& router, Context& context);

void AddHealthRoutes(Router& router, Context& context);        // /health, /metrics
void AddModelRoutes(Router& router, Context& context);         // /v1/models
void AddImageRoutes(Router& router, Context& context);         // /v1/classify
void AddEmbeddingRoutes(Router& router, Context& context);     // /v1/embeddings
void AddPhotoRoutes(Router& router, Context& context);         // /v1/detect, /v1/segment
void AddAttentionRoutes(Router& router, Context& context);     // /v1/attention
void AddGenerationRoutes(Router& router, Context& context);    // /v1/generate, /v1/completions
void AddTranslationRoutes(Router& router, Context& context);   // /v1/translate, /v1/summarize
void AddInferenceRoutes(Router& router, Context& context);     // /v2
void AddPhotoLibraryRoutes(Router& router, Context& context);  // /ping, /predict
void AddDescriptionRoutes(Router& router, Context& context);   // /openapi.json

void AddExploreRoutes(Router& router, Context& context);  // /, /explore

}  // namespace qkv::server
