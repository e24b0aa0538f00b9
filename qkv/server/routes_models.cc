// The offered models, as OpenAI lists them, with their abilities and, for loaded ones, the facts of qkv info.
#include <chrono>

#include "qkv/app/open/json_line.h"
#include "qkv/server/routes.h"

namespace qkv::server {
namespace {

// Abilities are read from the model's files, which loads nothing.
io::Json ModelJson(Context& context, const ModelStatus& status, bool info) {
  io::Json json = {
      {"id", status.entry.id}, {"object", "model"},       {"created", 0},
      {"owned_by", "qkv"},     {"loaded", status.loaded}, {"dtype", app::PrecisionName(status.entry.build.precision)}};
  try {
    const std::shared_ptr<const ModelFacts> facts = context.models().Describe(status.entry.id);
    json["kind"] = facts->kind_name(), json["routes"] = RoutesOf(*facts);
    json["abilities"] = app::AbilitiesOf(*facts);
  } catch (const Error& error) {
    json["error"] = error.what();
  }
  if (status.loaded) json["bytes"] = status.bytes;
  if (!status.error.empty()) json["error"] = status.error;
  if (!status.reload_error.empty()) json["reload_error"] = status.reload_error;
  if (info && status.model) json["info"] = status.model->info();
  return json;
}

}  // namespace

void AddModelRoutes(Router& router, Context& context) {
  router.Add({"GET", "/v1/models", [&context](Call&) {
                io::Json list = io::Json::array();
                for (const ModelStatus& status : context.models().List()) {
                  list.push_back(ModelJson(context, status, false));
                }
                return HttpResponse{.body = app::JsonLine({{"object", "list"}, {"data", list}})};
              }});
  router.Add({"GET", "/v1/models/{model}", [&context](Call& call) {
                const ModelStatus status = context.models().Status(call.parameters.at("model"));
                return HttpResponse{.body = app::JsonLine(ModelJson(context, status, true))};
              }});
}

}  // namespace qkv::server
