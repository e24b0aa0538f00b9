// One request and how to answer it, from any thread.
#pragma once

#include <memory>
#include <string>

#include "qkv/server/http_message.h"

namespace qkv::server {

/// What answered a request and how long that took, for its log line.
struct WorkNote {
  std::string model;                // its id; empty: none
  double queued = 0, computed = 0;  // seconds in the engine's queue, and on its thread
};

class Exchange {
 public:
  virtual ~Exchange() = default;

  const HttpRequest& request() const { return request_; }
  /// True when the answer is no longer needed: the client has gone, or the server shuts down.
  virtual bool cancelled() const = 0;
  /// Call it before reading the request's body: unpacks it if it is compressed, and reserves memory to parse it if it
  /// is JSON. Throws HttpError 400, 413 and 429 as encoding.h's Gunzip, within Limits. Unpacking takes time: do not
  /// call it on the transport's thread.
  virtual void PrepareBody() = 0;
  /// Call it before the end of the answer; the last note counts.
  virtual void Note(WorkNote note) = 0;
  /// Sends the whole answer. Once, and neither before nor after BeginStream. Status 499, for a client that has left,
  /// closes the connection.
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
