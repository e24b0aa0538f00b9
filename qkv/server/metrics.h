// The server's counters, in Prometheus' text format.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "qkv/server/engine.h"
#include "qkv/server/http_server.h"

namespace qkv::server {

/// Gauges, read at every scrape.
struct Levels {
  int64_t active = 0;                      // requests in progress
  std::map<std::string, int64_t> waiting;  // tasks in the queue, by model
  int64_t models = 0, model_bytes = 0;     // loaded
};

/// Members may be called from several threads.
class Metrics {
 public:
  Metrics();
  ~Metrics();

  /// route: its pattern, so that there are as many series as routes.
  void CountRequest(std::string_view route, const HttpRequest& request, const Outcome& outcome);
  void CountBatch(const BatchReport& report);
  /// Called for one image. model: the one that the request names, or empty.
  void CountDecoding(const std::string& model, double seconds);
  void CountPreparing(const std::string& model, double seconds);
  void CountTokens(const std::string& model, int64_t read, int64_t written);
  void CountModelEvent(const std::string& model, std::string_view event);

  /// text/plain; version=0.0.4
  std::string Text(const Levels& levels);

 private:
  struct Families;
  std::unique_ptr<Families> families_;
};

}  // namespace qkv::server
