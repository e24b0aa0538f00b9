// One request and the way to answer it, from any thread.
#pragma once

#include <memory>
#include <string>

#include "qkv/server/http_message.h"

namespace qkv::server {

class Exchange {
 public:
  virtual ~Exchange() = default;

  const HttpRequest& request() const { return request_; }
  /// True when the answer is not needed any more: the client has gone, or the server gives up at its end.
  virtual bool cancelled() const = 0;
  /// Sends the whole answer. Once, and neither before nor after BeginStream.
  virtual void Respond(HttpResponse response) = 0;
  /// Begins an answer whose body follows in pieces; head.body is its first.
  virtual void BeginStream(HttpResponse head) = 0;
  /// False if the client has gone, or takes its answer so slowly that it waits for more than a few megabytes.
  virtual bool Send(std::string piece) = 0;
  virtual void EndStream() = 0;

 protected:
  HttpRequest request_;
};

}  // namespace qkv::server
