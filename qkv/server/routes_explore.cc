// The explorer's page, and its calls (docs/explore_protocol.md).
#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "qkv/core/pause.h"
#include "qkv/explore/explorer.h"
#include "qkv/server/explorer_page.h"
#include "qkv/server/routes.h"
#include "qkv/server/static_answer.h"

namespace qkv::server {
namespace {

constexpr std::string_view kPackets = "application/octet-stream";
constexpr int64_t kExplorerShare = 4;  // part of the memory for images that the page may take

// The page shows those of the server's own models that it can, then those that come with qkv (Context).
explore::ExplorerOptions ExplorerOptionsOf(const ServerConfig& config) {
  explore::ExplorerOptions options;
  options.max_pixels = config.most_pixels;
  options.image_memory = config.image_bytes / kExplorerShare;
  return options;
}

// The explorer and its state on the engine's thread.
struct ExplorerState {
  explicit ExplorerState(Context& context) : explorer(context.models(), ExplorerOptionsOf(context.config())) {}

  explore::Explorer explorer;
  int64_t image_bytes = 0;  // of kept images, as counted among those of all requests
};

// Runs on the engine's thread. Both decoded and kept photos count towards the memory for images.
std::string AnswerExplorer(Context& context, Call& call, ExplorerState& state, const explore::Packet& request,
                           const std::shared_ptr<const LoadedModel>& model) {
  const PauseScope steps([&context] { context.GiveWay(); });
  int64_t reserved = 0;
  const explore::AdmitPhoto admit = [&](int64_t bytes) { Context::ReserveUpTo(bytes, call, reserved); };
  const auto count = [&] {
    context.image_bytes += state.explorer.image_bytes() - state.image_bytes;
    state.image_bytes = state.explorer.image_bytes();
  };
  try {
    std::string answer = explore::Encode(state.explorer.Call(call.parameters.at("call"), request, model, admit));
    count();
    return answer;
  } catch (...) {
    count();
    throw;
  }
}

HttpResponse Explore(Context& context, Call& call, ExplorerState& state) {
  const std::string& name = call.parameters.at("call");
  const std::vector<std::string> calls = explore::Explorer::Calls();
  if (std::find(calls.begin(), calls.end(), name) == calls.end()) {
    throw HttpError(404, "not_found_error", FormatShown("the explorer answers no call {}", name));
  }
  const std::string type = call.request().MediaType();
  if (type != kPackets && type != "application/json") {
    RefuseMediaType(call.request(), "application/json or application/octet-stream");
  }
  HttpResponse response{.type = std::string(kPackets)};
  const std::string& body = call.request().body;
  const explore::Packet request =
      body.empty() ? explore::Packet() : explore::Decode(std::as_bytes(std::span<const char>(body)));
  if (name == "models") {
    response.body = explore::Encode(state.explorer.Models());
    return response;
  }
  // Loaded here, so that the engine does not wait for it.
  const std::shared_ptr<const LoadedModel> model = state.explorer.Load(request, call.cancelled);
  call.model = model->id();
  context.Compute(
      {model->id(), "explorer"}, call, [&] { response.body = AnswerExplorer(context, call, state, request, model); },
      TaskClass::kExplorer);
  return response;
}

}  // namespace

void AddExploreRoutes(Router& router, Context& context) {
  if (!context.config().explorer) return;
  const Handler page = [](Call& call) {
    static const StaticAnswer answer(ServedPage(), "text/html; charset=utf-8",
                                     {{"Content-Security-Policy", "frame-ancestors 'none'"}});
    return answer.For(call.request());
  };
  router.Add({"GET", "/", page, /*open=*/true, /*runs_inline=*/true});
  const auto explorer = std::make_shared<ExplorerState>(context);
  Route calls{"POST", "/explore/{call}",
              [&context, explorer](Call& call) { return Explore(context, call, *explorer); }};
  for (const std::string& name : explore::Explorer::Calls()) calls.counted_paths.push_back("/explore/" + name);
  router.Add(std::move(calls));
}

}  // namespace qkv::server
