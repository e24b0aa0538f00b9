// An answer that stays the same while the server runs: compressed once, and sent again only if it has changed.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "qkv/server/http_message.h"

namespace qkv::server {

class StaticAnswer {
 public:
  StaticAnswer(std::string_view content, std::string type,
               std::vector<std::pair<std::string, std::string>> headers = {});

  /// 200 with a strong ETag, compressed if the request accepts that; or 304 if the client has this one already
  /// (If-None-Match).
  HttpResponse For(const HttpRequest& request) const;

 private:
  const std::string content_, packed_, type_, tag_;
  const std::vector<std::pair<std::string, std::string>> headers_;
};

}  // namespace qkv::server
