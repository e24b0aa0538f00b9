// Requests and answers of HTTP, as handlers see them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "qkv/core/error.h"

namespace qkv::server {

struct HttpRequest {
  std::string method;                          // "GET", "POST", …
  std::string path;                            // decoded, without the query
  std::map<std::string, std::string> query;    // decoded
  std::map<std::string, std::string> headers;  // names in small letters; of a header given twice the first, of those
                                               // that are lists all
  std::string body;                            // empty until it has been read
  std::string id;                              // given by the client (X-Request-Id) or made here; printable
  std::string host;                            // the host it names, as ParseHost; empty: none, in HTTP/1.0
  std::string peer;                            // address of the client
  std::string proxy;                           // address of the trusted proxy that named the client, or empty

  /// The value of a header by its name in small letters, or empty.
  std::string_view Header(std::string_view name) const;
  /// Content-Type without its parameters, in small letters.
  std::string MediaType() const;
};

struct HttpResponse {
  int status = 200;
  std::string type = "application/json";  // Content-Type
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;  // further ones
};

/// An answer with the status of an error, thrown by handlers.
class HttpError : public Error {
 public:
  /// type: as OpenAI names it, "invalid_request_error", "not_found_error", ….
  HttpError(int status, std::string type, const std::string& message)
      : Error(message), status_(status), type_(std::move(type)) {}

  int status() const { return status_; }
  const std::string& type() const { return type_; }

 private:
  int status_;
  std::string type_;
};

/// Removes the blanks and tabs that headers may have around values.
std::string_view TrimBlanks(std::string_view text);

/// Throws HttpError 400: "NAME: expected …" for a field or a header, or another message.
[[noreturn]] void BadRequest(std::string_view name, std::string_view expected);
[[noreturn]] void BadRequest(const std::string& message);

/// Throws HttpError 415: "Content-Type: expected …, got …" with the request's media type.
[[noreturn]] void RefuseMediaType(const HttpRequest& request, std::string_view expected);

/// Calls f, which reads a part of a request: its Error becomes HttpError 400.
template <typename F>
auto AsBadRequest(F&& f) {
  try {
    return f();
  } catch (const HttpError&) {
    throw;
  } catch (const Error& error) {
    BadRequest(error.what());
  }
}

/// The answer to a handler's Error: itself if it is an HttpError, 500 for a model's broken answer, 503 for a model
/// whose files have changed, 413 for a text that is too long, else 400. A FileError names files, so the answer only
/// refers to the log. Options of the command line, which messages of qkv/app name, become fields: "layers" for
/// "--layer".
HttpError AsHttpError(const Error& error);

/// {"error": {"message", "type", "code": the status}}; 429 and 503 with Retry-After. path: of the request; under /v2 it
/// is {"error": the message}, as that protocol has it.
HttpResponse ErrorResponse(int status, std::string_view type, std::string_view message, std::string_view path = {});

/// Sets `host`, from the header Host and from the target: a path, which is split and decoded, or a whole address, whose
/// host then replaces the header's. Throws HttpError 400 if the target is malformed, or gives a field twice.
void ParseTarget(std::string_view target, HttpRequest* request);

/// Limits of the transport, for one client or for all together.
struct Limits {
  int64_t body = 64'000'000;     // bytes of one request
  int64_t bodies = 512'000'000;  // bytes of all bodies that are being read or worked on
  int connections = 1024;        // at a time
  double header_seconds = 10;    // until the header is complete
  double idle_seconds = 75;      // between two requests of a connection
  double transfer_seconds = 60;  // for a body, and for an answer to be taken
};

}  // namespace qkv::server
