#include "qkv/server/static_answer.h"

#include <fmt/format.h>

#include <algorithm>

#include "qkv/core/hash.h"
#include "qkv/server/encoding.h"

namespace qkv::server {
namespace {

constexpr int kSmallest = 9;  // zlib's level: it is done once

// RFC 9110, 13.1.2: any of the tags, compared weakly, or "*". Tags hold no comma here, so splitting at commas is safe.
bool IsAmong(std::string_view tags, std::string_view tag) {
  while (!tags.empty()) {
    const size_t comma = std::min(tags.find(','), tags.size());
    std::string_view one = TrimBlanks(tags.substr(0, comma));
    tags.remove_prefix(std::min(comma + 1, tags.size()));
    if (one.starts_with("W/")) one.remove_prefix(2);
    if (one == tag || one == "*") return true;
  }
  return false;
}

}  // namespace

StaticAnswer::StaticAnswer(std::string_view content, std::string type,
                           std::vector<std::pair<std::string, std::string>> headers)
    : content_(content),
      packed_(Gzip(content, kSmallest)),
      type_(std::move(type)),
      tag_(fmt::format("{:016x}", Fnv1a().Add(content).value())),
      headers_(std::move(headers)) {}

HttpResponse StaticAnswer::For(const HttpRequest& request) const {
  const bool packed = AcceptsGzip(request.Header("accept-encoding"));
  // Strong tags identify bytes, so each form has its own.
  const std::string tag = fmt::format("\"{}{}\"", tag_, packed ? "-gzip" : "");
  HttpResponse response{.type = type_, .headers = headers_};
  response.headers.emplace_back("Cache-Control", "no-cache");  // kept, and asked for by its tag
  response.headers.emplace_back("ETag", tag);
  response.headers.emplace_back("Vary", "Accept-Encoding");
  if (IsAmong(request.Header("if-none-match"), tag)) {
    response.status = 304;
    response.type.clear();
    return response;
  }
  if (packed) response.headers.emplace_back("Content-Encoding", "gzip");
  response.body = packed ? packed_ : content_;
  return response;
}

}  // namespace qkv::server
