#include "qkv/server/http_message.h"

#include <algorithm>
#include <boost/beast/core/string.hpp>
#include <boost/url.hpp>
#include <cctype>
#include <optional>
#include <utility>

#include "qkv/app/open/json_line.h"
#include "qkv/app/texts/text_ids.h"
#include "qkv/core/file_error.h"
#include "qkv/explore/outdated_error.h"
#include "qkv/io/json.h"
#include "qkv/model/blocks/finite.h"
#include "qkv/server/host.h"

namespace qkv::server {
namespace {

// Takes the host off a target that is a whole address, and leaves its path.
std::string TakeHost(std::string_view target, HttpRequest* request) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    const std::string_view begin = target.substr(0, scheme.size());
    if (!boost::beast::iequals({begin.data(), begin.size()}, {scheme.data(), scheme.size()})) continue;
    target.remove_prefix(scheme.size());
    const std::string_view host = target.substr(0, target.find_first_of("/?"));
    if (!ParseHost(host)) break;
    request->headers["host"] = std::string(host);
    const std::string path(target.substr(host.size()));
    return path.starts_with('/') ? path : "/" + path;
  }
  BadRequest("the request's target is neither a path nor an address");
}

bool IsOfWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '-'; }

// Translates a message of qkv/app to the names of request fields.
std::string InFields(std::string_view message) {
  // Options whose fields have other names, and commands that are routes.
  static constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"--layer", "layers"},
      {"--head", "heads"},
      {"--template", "templates"},
      {"--tokens", "max_tokens"},
      {"--max-memory", "the server's --max-memory"},
      {"qkv classify", "/v1/classify"},
      {"qkv embed", "/v1/embeddings"},
      {"qkv detect", "/v1/detect"},
      {"qkv segment", "/v1/segment"}};
  std::string text;
  while (!message.empty()) {
    const auto name = std::find_if(std::begin(kNames), std::end(kNames), [&](const auto& n) {
      return message.starts_with(n.first) && (message.size() == n.first.size() || !IsOfWord(message[n.first.size()]));
    });
    const bool begins = text.empty() || !IsOfWord(text.back());
    if (begins && name != std::end(kNames)) {
      text += name->second;
      message.remove_prefix(name->first.size());
    } else if (begins && message.size() > 2 && message.starts_with("--") && IsOfWord(message[2]) && message[2] != '-') {
      message.remove_prefix(2);
    } else {
      text += message.front();
      message.remove_prefix(1);
    }
  }
  return text;
}

}  // namespace

std::string_view TrimBlanks(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  return text.substr(0, text.find_last_not_of(" \t") + 1);
}

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

void BadRequest(std::string_view name, std::string_view expected) {
  BadRequest(FormatShown("{}: expected {}", name, expected));
}

void BadRequest(const std::string& message) { throw HttpError(400, "invalid_request_error", message); }

void RefuseMediaType(const HttpRequest& request, std::string_view expected) {
  const std::string type = request.MediaType();
  throw HttpError(415, "invalid_request_error",
                  FormatShown("Content-Type: expected {}, got {}", expected, type.empty() ? "none" : type));
}

HttpError AsHttpError(const Error& error) {
  if (const auto* const known = dynamic_cast<const HttpError*>(&error)) return *known;
  if (dynamic_cast<const model::AnswerError*>(&error) != nullptr) return {500, "model_error", error.what()};
  if (dynamic_cast<const explore::OutdatedError*>(&error) != nullptr) return {503, "model_error", error.what()};
  if (dynamic_cast<const FileError*>(&error) != nullptr) {
    return {503, "model_error",
            "a file of the model cannot be read; the server's log says more under this request's id"};
  }
  const bool is_long = dynamic_cast<const app::TextLengthError*>(&error) != nullptr;
  return {is_long ? 413 : 400, "invalid_request_error", InFields(error.what())};
}

void ParseTarget(std::string_view target, HttpRequest* request) {
  const auto header = request->headers.find("host");
  if (header != request->headers.end()) {
    const std::optional<std::string> host = ParseHost(header->second);
    if (!host) BadRequest("Host", "a name or an address, perhaps with a port, such as localhost:8080 or [::1]");
    request->host = *host;
  }
  const std::string origin = target.starts_with('/') ? std::string(target) : TakeHost(target, request);
  if (target != origin) request->host = ParseHost(request->Header("host")).value_or("");
  const auto parsed = boost::urls::parse_origin_form(origin);
  if (!parsed) BadRequest("the request's target is not a path");
  const boost::urls::url_view url = *parsed;
  request->path = url.path();
  for (const auto& parameter : url.params()) {
    if (!request->query.emplace(parameter.key, parameter.value).second) {
      BadRequest(parameter.key, "it once in the query");
    }
  }
  if (request->path.find('\0') != std::string::npos) BadRequest("the request's path holds a zero byte");
}

}  // namespace qkv::server
