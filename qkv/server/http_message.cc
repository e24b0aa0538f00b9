#include "qkv/server/http_message.h"

#include <algorithm>
#include <boost/url.hpp>
#include <cctype>

#include "qkv/app/json_line.h"
#include "qkv/io/json.h"

namespace qkv::server {

std::string_view HttpRequest::Header(std::string_view name) const {
  const auto found = headers.find(std::string(name));
  return found == headers.end() ? std::string_view() : std::string_view(found->second);
}

std::string HttpRequest::MediaType() const {
  std::string type(Header("content-type").substr(0, Header("content-type").find(';')));
  type.erase(std::remove_if(type.begin(), type.end(), [](unsigned char c) { return std::isspace(c); }), type.end());
  std::transform(type.begin(), type.end(), type.begin(), [](unsigned char c) { return std::tolower(c); });
  return type;
}

HttpResponse ErrorResponse(int status, std::string_view type, std::string_view message, std::string_view path) {
  io::Json error = {{"error", {{"message", message}, {"type", type}, {"code", status}}}};
  if (path == "/v2" || path.starts_with("/v2/")) error["error"] = message;
  HttpResponse response{.status = status, .body = app::JsonLine(error)};
  if (status == 429 || status == 503) response.headers.emplace_back("Retry-After", "1");
  return response;
}

void ParseTarget(std::string_view target, HttpRequest* request) {
  const auto parsed = boost::urls::parse_origin_form(target);
  if (!parsed) throw HttpError(400, "invalid_request_error", "the request's target is not a path");
  const boost::urls::url_view url = *parsed;
  request->path = url.path();
  for (const auto& parameter : url.params()) request->query[parameter.key] = parameter.value;
  if (request->path.find('\0') != std::string::npos) {
    throw HttpError(400, "invalid_request_error", "the request's path holds a zero byte");
  }
}

}  // namespace qkv::server
