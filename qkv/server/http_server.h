// The transport: connections, limits, time-outs and orderly shutdown. Handlers interpret requests.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "qkv/server/exchange.h"

namespace qkv::server {

/// How a request ended, for logs and counters.
struct Outcome {
  int status = 0;            // 499: the client left, 503 without an answer: the server gave up at its end
  int64_t received = 0;      // bytes of the request's body, as they came
  int64_t sent = 0;          // bytes of the answer's body, as they went
  double seconds = 0;        // since its header was complete
  bool client_left = false;  // before the answer was sent whole
  bool given_up = false;     // by the server, at its end
  bool admitted = false;     // its header was whole, and `admit` was asked
  WorkNote work;
};

class HttpServer {
 public:
  struct Hooks {
    /// Sees a request's header before its body is read; an answer turns it away.
    std::function<std::optional<HttpResponse>(const HttpRequest&)> admit;
    /// The client's address for a request whose `peer` may be a proxy; empty: `peer`.
    std::function<std::string(const HttpRequest&)> client;
    /// Receives a whole request on the server's thread and must return soon; the answer may come later.
    std::function<void(std::shared_ptr<Exchange>)> handle;
    /// Called when a request has ended, rejected or answered.
    std::function<void(const HttpRequest&, const Outcome&)> ended;
    /// Additional headers for every answer to a request; may be empty.
    std::function<std::vector<std::pair<std::string, std::string>>(const HttpRequest&)> headers;
    /// Called at the first SIGTERM or SIGINT, or Stop.
    std::function<void()> ends;
    /// Called at a second SIGTERM or SIGINT.
    std::function<void()> give_up;
    /// Called at SIGHUP.
    std::function<void()> reload;
  };

  /// Listens at once; port 0 takes a free one. Throws Error if the address is not available.
  HttpServer(const std::string& address, uint16_t port, const Limits& limits, Hooks hooks);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  const std::string& address() const;
  uint16_t port() const;

  /// Serves until Stop, SIGTERM or SIGINT. After a signal goes on for notice_seconds, so that load balancers may
  /// notice. Then takes no new connection, answers requests in progress, for drain_seconds at most, and returns.
  void Run(double drain_seconds, double notice_seconds = 0);
  /// Stops without notice. May be called from any thread or a signal handler.
  void Stop();
  /// True if only this machine reaches it.
  bool loopback() const;

  struct State;  // of http_server.cc

 private:
  std::shared_ptr<State> state_;
};

}  // namespace qkv::server
