// The explorer's page, and the calls by which it asks (docs/explore_protocol.md).
#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "qkv/explore/explorer.h"
#include "qkv/server/explorer_page.h"
#include "qkv/server/routes.h"

namespace qkv::server {
namespace {

constexpr std::string_view kPackets = "application/octet-stream";

// The server's own models, which the page shows as far as it can, then those that come with qkv.
explore::ExplorerOptions ExplorerOptionsOf(const ServerConfig& config) {
  explore::ExplorerOptions options;
  std::set<std::string> ids;
  for (const ModelEntry& model : config.models) {
    options.models.push_back({.id = model.id, .path = model.path, .title = ""});
    ids.insert(model.id);
  }
  for (explore::ModelEntry& model : explore::DefaultModels()) {
    if (ids.insert(model.id).second) options.models.push_back(std::move(model));
  }
  options.memory = static_cast<double>(config.memory);
  options.max_pixels = config.most_pixels;
  return options;
}

}  // namespace

void AddExploreRoutes(Router& router, Context& context) {
  if (!context.config().explorer) return;
  const Handler page = [](Call&) {
    HttpResponse response{.type = "text/html; charset=utf-8", .body = std::string(ServedPage())};
    response.headers = {{"Content-Security-Policy", "frame-ancestors 'none'"}, {"Cache-Control", "no-cache"}};
    return response;
  };
  router.Add({"GET", "/", page, /*open=*/true, /*runs_inline=*/true});
  // Used on the engine's thread alone.
  const auto explorer = std::make_shared<explore::Explorer>(ExplorerOptionsOf(context.config()));
  const std::vector<std::string> calls = explore::Explorer::Calls();
  router.Add({"POST", "/explore/{call}", [&context, explorer, calls](Call& call) {
                const std::string& name = call.parameters.at("call");
                if (std::find(calls.begin(), calls.end(), name) == calls.end()) {
                  throw HttpError(404, "not_found_error", FormatShown("the explorer answers no call {}", name));
                }
                const std::string type = call.request().MediaType();
                if (type != kPackets && type != "application/json") {
                  throw HttpError(415, "invalid_request_error",
                                  "Content-Type: expected application/json or application/octet-stream");
                }
                std::string answer;
                context.Compute({"explorer", name}, call, [&] { answer = explorer->Call(name, call.request().body); });
                return HttpResponse{.type = std::string(kPackets), .body = std::move(answer)};
              }});
}

}  // namespace qkv::server
