#include "qkv/server/routes.h"

namespace qkv::server {

void AddRoutes(Router& router, Context& context) {
  AddHealthRoutes(router, context);
  AddModelRoutes(router, context);
  AddImageRoutes(router, context);
  AddEmbeddingRoutes(router, context);
  AddExploreRoutes(router, context);
  AddPhotoRoutes(router, context);
  AddAttentionRoutes(router, context);
  AddGenerationRoutes(router, context);
  AddTranslationRoutes(router, context);
  AddInferenceRoutes(router, context);
  AddPhotoLibraryRoutes(router, context);
  AddDescriptionRoutes(router, context);
}

}  // namespace qkv::server
