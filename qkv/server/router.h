// Maps requests to handlers.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "qkv/server/exchange.h"
#include "qkv/server/fair_queue.h"
#include "qkv/server/fields.h"

namespace qkv::server {

/// Bytes of a request's images, counted against the limit for all requests.
class ImageMemory {
 public:
  ImageMemory(std::atomic<int64_t>& all, int64_t max) : all_(all), max_(max) {}
  ~ImageMemory() { all_ -= reserved_; }
  ImageMemory(const ImageMemory&) = delete;
  ImageMemory& operator=(const ImageMemory&) = delete;

  /// Reserves until the request has ended. Throws HttpError 413 if the request alone takes too much, and 429 if others
  /// do.
  void Reserve(int64_t bytes);
  /// Releases before the request's end.
  void Release(int64_t bytes) {
    reserved_ -= bytes;
    all_ -= bytes;
  }

 private:
  std::atomic<int64_t>& all_;
  const int64_t max_;
  int64_t reserved_ = 0;
};

/// A request in a handler.
struct Call {
  std::shared_ptr<Exchange> exchange;
  std::map<std::string, std::string> parameters;  // of the path: "{model}"
  std::function<bool()> cancelled;                // the client has gone, or the time limit has passed
  std::function<void()> renew;                    // restarts the time limit: a stream has advanced
  std::shared_ptr<ImageMemory> memory;
  std::shared_ptr<Turn> turn = std::make_shared<Turn>();  // in the engine's queue, with the seconds there
  std::string model;  // the id of the answering model, once known; for counters and the log

  const HttpRequest& request() const { return exchange->request(); }
  /// For the log line; before the end of the answer.
  WorkNote note() const { return {model, turn->queued, turn->computed}; }
};

/// Returns the answer, or nothing if it has answered through the exchange. Throws HttpError, Error if the request is at
/// fault, and model::AnswerError if the model is.
using Handler = std::function<std::optional<HttpResponse>(Call&)>;

struct Route {
  std::string method;   // "GET" answers HEAD too
  std::string pattern;  // "/v2/models/{model}/infer"
  Handler handler;
  bool open = false;               // without the key: health, pages
  bool runs_inline = false;        // on the transport's thread: little work, answered however busy the server is
  std::vector<Field> fields = {};  // of a request; empty: openapi.json describes its body
  std::vector<std::string> counted_paths = {};  // of the pattern, which have counters of their own
};

struct Match {
  const Route* route = nullptr;
  std::map<std::string, std::string> parameters;
};

class Router {
 public:
  void Add(Route route) { routes_.push_back(std::move(route)); }
  /// Throws HttpError 404 if no route has this path, and 405 if none has it for this method.
  Match Find(const HttpRequest& request) const;
  /// The methods of a path, "GET, HEAD, POST"; empty if it has none.
  std::string Methods(const HttpRequest& request) const;
  const std::vector<Route>& routes() const { return routes_; }

 private:
  std::vector<Route> routes_;
};

}  // namespace qkv::server
