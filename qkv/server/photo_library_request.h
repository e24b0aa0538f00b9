// Requests of the photo library immich to its machine-learning service.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/server/http_message.h"

namespace qkv::server {

/// One task of a request: {"clip": {"visual": {"modelName": …}}}.
struct LibraryTask {
  std::string task, type;  // "clip" and "visual"
  std::string model;
};

struct LibraryRequest {
  std::vector<LibraryTask> tasks;
  std::optional<std::string_view> image, text;  // refers to the body; one of them
};

/// The tasks in the form's field "entries". Throws HttpError 422, as the original does, if it is malformed.
std::vector<LibraryTask> ParseLibraryEntries(std::string_view json);

/// A form with "entries", and "image" or "text". Throws HttpError 400, 415 and 422.
LibraryRequest ParseLibraryRequest(const HttpRequest& request);

}  // namespace qkv::server
