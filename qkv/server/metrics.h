// What the server counts, in Prometheus' text format.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "qkv/server/engine.h"
#include "qkv/server/http_server.h"

namespace qkv::server {

/// What is asked for at every scrape.
struct Levels {
  int64_t active = 0, waiting = 0;      // requests that are worked on, tasks in the queue
  int64_t models = 0, model_bytes = 0;  // loaded
};

/// Members may be called from several threads.
class Metrics {
 public:
  Metrics();
  ~Metrics();

  /// route: its pattern, so that there are as many series as routes.
  void CountRequest(std::string_view route, const HttpRequest& request, const Outcome& outcome);
  void CountBatch(const BatchReport& report);
  void CountDecoding(double seconds);
  void CountTokens(const std::string& model, int64_t read, int64_t written);
  void CountModelEvent(const std::string& model, std::string_view event);

  /// text/plain; version=0.0.4
  std::string Text(const Levels& levels) const;

 private:
  struct Families;
  std::unique_ptr<Families> families_;
};

}  // namespace qkv::server
