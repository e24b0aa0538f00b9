#include "qkv/server/photo_library_request.h"

#include "qkv/server/multipart.h"
#include "qkv/server/request_input.h"

namespace qkv::server {
namespace {

constexpr size_t kMostTasks = 16;

[[noreturn]] void Unfit() {
  throw HttpError(422, "invalid_request_error",
                  R"(entries: expected {"clip": {"visual" or "textual": {"modelName": "…"}}})");
}

}  // namespace

std::vector<LibraryTask> ParseLibraryEntries(std::string_view text) {
  io::Json json;
  try {
    json = ParseRequestJson(text, "entries");
  } catch (const HttpError& error) {
    throw HttpError(422, "invalid_request_error", error.what());
  }
  if (!json.is_object()) Unfit();
  std::vector<LibraryTask> tasks;
  for (const auto& [task, types] : json.items()) {
    if (!types.is_object()) Unfit();
    for (const auto& [type, entry] : types.items()) {
      if (!entry.is_object() || !entry.contains("modelName") || !entry["modelName"].is_string()) Unfit();
      tasks.push_back({task, type, entry["modelName"].get<std::string>()});
    }
  }
  if (tasks.empty() || tasks.size() > kMostTasks) Unfit();
  return tasks;
}

LibraryRequest ParseLibraryRequest(const HttpRequest& request) {
  if (request.MediaType() != "multipart/form-data") RefuseMediaType(request, "multipart/form-data");
  LibraryRequest parsed;
  bool has_entries = false;
  for (const FormPart& part : ParseMultipart(request.Header("content-type"), request.body)) {
    if (part.name == "entries") {
      has_entries = true;
      parsed.tasks = ParseLibraryEntries(part.body);
    } else if (part.name == "image") {
      parsed.image = part.body;
    } else if (part.name == "text") {
      parsed.text = part.body;
    }
  }
  if (!has_entries) Unfit();
  if (!parsed.image && !parsed.text) {
    BadRequest("expected a field image or text");
  }
  return parsed;
}

}  // namespace qkv::server
