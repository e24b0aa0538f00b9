// What each model has done since the start, as Triton's extension "statistics" reports it.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "qkv/io/json.h"
#include "qkv/server/engine.h"

namespace qkv::server {

/// Members may be called from several threads.
class ModelStatistics {
 public:
  void CountBatch(const BatchReport& report);
  /// A request of any protocol that a model answered, or failed to.
  void CountRequest(const std::string& model, bool success, double seconds);

  /// An item in "model_stats". Times of inputs and outputs are not measured, and there is no cache: they are zero.
  io::Json Describe(const std::string& model, const std::string& version) const;

 private:
  struct Duration {
    int64_t count = 0;
    double seconds = 0;

    void Add(double more) { ++count, seconds += more; }
  };
  struct Record {
    Duration success, fail, queue, compute;
    int64_t inferences = 0, last_ms = 0;        // images and texts; since 1970
    std::map<int64_t, Duration> by_batch_size;  // of computations
  };

  static io::Json ToJson(const Duration& duration);

  mutable std::mutex mutex_;
  std::map<std::string, Record> records_;
};

}  // namespace qkv::server
