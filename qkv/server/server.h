// A server: transport, models, engine and routes, put together.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "qkv/io/json.h"
#include "qkv/server/config.h"

namespace qkv::server {

/// Receives a line for the log: {"time", "level", "event", …}. Called on a thread of its own, one call at a time.
using Log = std::function<void(const io::Json&)>;

class Server {
 public:
  /// Listens at once. `reload` reads the configuration again at SIGHUP; empty for none. Throws Error if the address is
  /// not available.
  Server(ServerConfig config, Log log, std::function<ServerConfig()> reload = {});
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// "http://127.0.0.1:8080"
  std::string Url() const;
  uint16_t port() const;
  /// Loads the models marked for the start while serving, until Stop, SIGTERM or SIGINT; then answers requests in
  /// progress. A second signal calls `give_up`, and so does the first while models are loaded: a load cannot be
  /// stopped, but a process can end. Throws Error if a model of the start cannot be loaded.
  void Run(std::function<void()> give_up = {});
  /// May be called from any thread.
  void Stop();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace qkv::server
