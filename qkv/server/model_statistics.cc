#include "qkv/server/model_statistics.h"

#include <chrono>
#include <cmath>

namespace qkv::server {

void ModelStatistics::CountBatch(const BatchReport& report) {
  if (report.labels.model.empty()) return;
  const std::lock_guard lock(mutex_);
  Record& record = records_[report.labels.model];
  for (const double waited : report.waited) record.queue.Add(waited);
  record.compute.Add(report.computed);
  record.by_batch_size[report.size].Add(report.computed);
  record.inferences += report.size;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  record.last_ms = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

void ModelStatistics::CountRequest(const std::string& model, bool success, double seconds) {
  if (model.empty()) return;
  const std::lock_guard lock(mutex_);
  Record& record = records_[model];
  (success ? record.success : record.fail).Add(seconds);
}

io::Json ModelStatistics::ToJson(const Duration& duration) {
  return {{"count", duration.count}, {"ns", std::llround(1e9 * duration.seconds)}};
}

io::Json ModelStatistics::Describe(const std::string& model, const std::string& version) const {
  const std::lock_guard lock(mutex_);
  const auto found = records_.find(model);
  const Record record = found == records_.end() ? Record() : found->second;
  const io::Json none = ToJson({});
  io::Json batches = io::Json::array();
  for (const auto& [size, duration] : record.by_batch_size) {
    batches.push_back(
        {{"batch_size", size}, {"compute_input", none}, {"compute_infer", ToJson(duration)}, {"compute_output", none}});
  }
  return {{"name", model},
          {"version", version},
          {"last_inference", record.last_ms},
          {"inference_count", record.inferences},
          {"execution_count", record.compute.count},
          {"inference_stats",
           {{"success", ToJson(record.success)},
            {"fail", ToJson(record.fail)},
            {"queue", ToJson(record.queue)},
            {"compute_input", none},
            {"compute_infer", ToJson(record.compute)},
            {"compute_output", none},
            {"cache_hit", none},
            {"cache_miss", none}}},
          {"batch_stats", std::move(batches)}};
}

}  // namespace qkv::server
