#include "qkv/server/router.h"

#include <fmt/format.h>

#include <string_view>

namespace qkv::server {
namespace {

std::string_view NextPart(std::string_view& path) {
  const size_t end = std::min(path.find('/', 1), path.size());
  const std::string_view part = path.substr(0, end);
  path.remove_prefix(end);
  return part;
}

bool Matches(std::string_view pattern, std::string_view path, std::map<std::string, std::string>* parameters) {
  while (!pattern.empty() && !path.empty()) {
    const std::string_view expected = NextPart(pattern), got = NextPart(path);
    if (expected.starts_with("/{") && got.size() > 1) {
      (*parameters)[std::string(expected.substr(2, expected.size() - 3))] = got.substr(1);
    } else if (expected != got) {
      return false;
    }
  }
  return pattern.empty() && path.empty();
}

}  // namespace

void ImageMemory::Reserve(int64_t bytes) {
  if (reserved_ + bytes > max_) {
    throw HttpError(
        413, "invalid_request_error",
        fmt::format("the images take {} bytes once decoded, and all of this server's may take {}: send fewer "
                    "at a time, or smaller ones",
                    reserved_ + bytes, max_));
  }
  if ((all_ += bytes) > max_) {
    all_ -= bytes;
    throw HttpError(429, "rate_limit_error", "the images that are worked on take as much memory as they may");
  }
  reserved_ += bytes;
}

Match Router::Find(const HttpRequest& request) const {
  const std::string method = request.method == "HEAD" ? "GET" : request.method;
  for (const Route& route : routes_) {
    Match match{.route = &route};
    if (route.method == method && Matches(route.pattern, request.path, &match.parameters)) return match;
  }
  const std::string methods = Methods(request);
  if (methods.empty()) {
    throw HttpError(404, "not_found_error",
                    FormatShown("there is no {}; /openapi.json describes what there is", request.path));
  }
  throw HttpError(405, "invalid_request_error",
                  FormatShown("{} takes {}, not {}", request.path, methods, request.method));
}

std::string Router::Methods(const HttpRequest& request) const {
  std::string methods;
  for (const Route& route : routes_) {
    std::map<std::string, std::string> ignored;
    if (!Matches(route.pattern, request.path, &ignored)) continue;
    methods += (methods.empty() ? "" : ", ") + route.method + (route.method == "GET" ? ", HEAD" : "");
  }
  return methods;
}

}  // namespace qkv::server
