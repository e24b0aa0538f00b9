// The Open Inference Protocol, version 2: health, models, inference, and loading and unloading.
#include "qkv/app/open/json_line.h"
#include "qkv/server/infer_model.h"
#include "qkv/server/request_input.h"
#include "qkv/server/routes.h"

namespace qkv::server {
namespace {

std::string VersionOf(const ModelEntry& entry) { return entry.revision.empty() ? "1" : entry.revision; }

// The model in a path, loaded or not. Throws HttpError 404 for another version.
ModelStatus ModelOfPath(Context& context, const Call& call) {
  ModelStatus status = context.models().Status(call.parameters.at("model"));
  const auto version = call.parameters.find("version");
  if (version != call.parameters.end() && version->second != VersionOf(status.entry)) {
    throw HttpError(404, "not_found_error",
                    FormatShown("model {} has version {} alone", status.entry.id, VersionOf(status.entry)));
  }
  return status;
}

io::Json TensorsJson(const std::vector<TensorSpec>& specs) {
  io::Json list = io::Json::array();
  for (const TensorSpec& spec : specs) {
    list.push_back({{"name", spec.name}, {"datatype", spec.datatype}, {"shape", spec.shape}});
  }
  return list;
}

HttpResponse Metadata(Context& context, Call& call) {
  const ModelEntry entry = ModelOfPath(context, call).entry;
  const ModelTensors tensors = DescribeTensors(*context.models().Describe(entry.id));
  return {.body = app::JsonLine({{"name", entry.id},
                                 {"versions", {VersionOf(entry)}},
                                 {"platform", "qkv"},
                                 {"inputs", TensorsJson(tensors.inputs)},
                                 {"outputs", TensorsJson(tensors.outputs)}})};
}

// Triton's configuration, as far as it applies to this server. Shapes are without the batch.
HttpResponse Configuration(Context& context, Call& call) {
  const std::string id = ModelOfPath(context, call).entry.id;
  const ModelTensors tensors = DescribeTensors(*context.models().Describe(id));
  const auto list = [](const std::vector<TensorSpec>& specs, bool input) {
    io::Json all = io::Json::array();
    for (const TensorSpec& spec : specs) {
      io::Json one = {{"name", spec.name},
                      {"data_type", spec.datatype == "BYTES" ? "TYPE_STRING" : "TYPE_" + spec.datatype},
                      {"dims", std::vector<int64_t>(spec.shape.begin() + 1, spec.shape.end())}};
      if (input) one["optional"] = specs.size() > 1;
      all.push_back(std::move(one));
    }
    return all;
  };
  const EngineOptions& batching = context.config().batching;
  return {.body =
              app::JsonLine({{"name", id},
                             {"platform", "qkv"},
                             {"backend", "qkv"},
                             {"max_batch_size", batching.most_together},
                             {"input", list(tensors.inputs, true)},
                             {"output", list(tensors.outputs, false)},
                             {"dynamic_batching", {{"max_queue_delay_microseconds", batching.most_delay.count()}}}})};
}

HttpResponse InferOnce(Context& context, Call& call) {
  const InferRequest request = ParseInferRequest(call.request());
  const auto model = context.ModelFor(call, ModelOfPath(context, call).entry.id);
  return InferResponse(model->id(), VersionOf(model->entry()), request.id, Infer(context, call, model, request));
}

HttpResponse Ready(Context& context, Call& call) {
  const ModelStatus status = ModelOfPath(context, call);
  // A model that is not loaded yet will be at its first request; a model that a client has unloaded is not ready. The
  // protocol has 4xx for a model that is not ready, which is no failure of the server.
  if (status.unloaded) throw HttpError(400, "model_error", "it was unloaded; a request for inference loads it again");
  if (!status.error.empty()) throw HttpError(400, "model_error", status.error);
  return {.body = R"({"ready": true})"};
}

io::Json StatisticsOf(Context& context, const ModelEntry& entry) {
  return context.statistics().Describe(entry.id, VersionOf(entry));
}

// The extension "statistics", for one model or for all.
HttpResponse Statistics(Context& context, const Call& call) {
  io::Json list = io::Json::array();
  if (call.parameters.contains("model")) {
    list.push_back(StatisticsOf(context, ModelOfPath(context, call).entry));
  } else {
    for (const ModelStatus& status : context.models().List()) list.push_back(StatisticsOf(context, status.entry));
  }
  return {.body = app::JsonLine({{"model_stats", list}})};
}

// The extension "repository": the models, whether in memory or not.
HttpResponse Index(Context& context, Call& call) {
  bool ready_only = false;
  if (!call.request().body.empty()) {
    const io::Json json = ParseObject(call.request().body);
    if (json.contains("ready")) {
      if (!json["ready"].is_boolean()) BadRequest("ready: expected true or false");
      ready_only = json["ready"].get<bool>();
    }
  }
  io::Json list = io::Json::array();
  for (const ModelStatus& status : context.models().List()) {
    if (ready_only && !status.loaded) continue;
    io::Json one = {{"name", status.entry.id},
                    {"version", VersionOf(status.entry)},
                    {"state", status.loaded ? "READY" : "UNAVAILABLE"}};
    if (!status.loaded) one["reason"] = status.error.empty() ? "loaded at the first request" : status.error;
    list.push_back(std::move(one));
  }
  return {.body = app::JsonLine(list)};
}

// Only the server's owner configures a model, so a client's configuration is refused.
HttpResponse SetLoaded(Context& context, Call& call, bool load) {
  if (!call.request().body.empty()) {
    const io::Json json = ParseObject(call.request().body);
    const io::Json parameters = json.value("parameters", io::Json::object());
    if (!parameters.is_object() || (load && !parameters.empty())) {
      BadRequest("parameters: expected an object, and none to load a model: its configuration is the server's");
    }
  }
  const std::string& id = call.parameters.at("model");
  if (load) {
    context.ModelFor(call, id);
  } else {
    context.models().Unload(id);
  }
  return {.body = "{}"};
}

void AddModel(Router& router, Context& context, const std::string& model) {
  router.Add({"GET", model, [&context](Call& call) { return Metadata(context, call); }});
  router.Add({"GET", model + "/config", [&context](Call& call) { return Configuration(context, call); }});
  router.Add({"GET", model + "/ready", [&context](Call& call) { return Ready(context, call); },
              /*open=*/false, /*runs_inline=*/true});
  router.Add({"GET", model + "/stats", [&context](Call& call) { return Statistics(context, call); }});
  router.Add({"POST", model + "/infer", [&context](Call& call) { return InferOnce(context, call); }});
}

}  // namespace

void AddInferenceRoutes(Router& router, Context& context) {
  const auto light = [&](const char* method, const char* path, bool open, auto handler) {
    router.Add({method, path, handler, open, /*runs_inline=*/true});
  };
  light("GET", "/v2", true, [](Call&) {
    return HttpResponse{.body = app::JsonLine({{"name", "qkv"},
                                               {"version", QKV_VERSION},
                                               {"extensions",
                                                {"binary_tensor_data", "classification", "model_configuration",
                                                 "model_repository", "statistics"}}})};
  });
  light("GET", "/v2/health/live", true, [](Call&) { return HttpResponse{.body = R"({"live": true})"}; });
  for (const char* path : {"/v2/health/ready", "/readyz"}) {
    light("GET", path, true, [&context](Call&) {
      if (context.ending) throw HttpError(503, "server_error", "the server ends");
      if (!context.models().IsReady()) throw HttpError(503, "model_error", "models of the start are not loaded yet");
      return HttpResponse{.body = R"({"ready": true})"};
    });
  }
  // Must precede the route of a model with this name.
  router.Add({"GET", "/v2/models/stats", [&context](Call& call) { return Statistics(context, call); }});
  AddModel(router, context, "/v2/models/{model}");
  AddModel(router, context, "/v2/models/{model}/versions/{version}");
  light("POST", "/v2/repository/index", false, [&context](Call& call) { return Index(context, call); });
  router.Add({"POST", "/v2/repository/models/{model}/load",
              [&context](Call& call) { return SetLoaded(context, call, true); }});
  router.Add({"POST", "/v2/repository/models/{model}/unload",
              [&context](Call& call) { return SetLoaded(context, call, false); }});
}

}  // namespace qkv::server
