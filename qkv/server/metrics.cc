#include "qkv/server/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "qkv/server/process_metrics.h"

namespace qkv::server {
namespace {

using prometheus::Histogram;

const Histogram::BucketBoundaries kSeconds = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                                              0.5,   1,      2.5,   5,    10,    30,   60,  120};
const Histogram::BucketBoundaries kSizes = {1, 2, 4, 8, 16, 32, 64};

// Registers the family of a builder.
template <typename Builder>
auto& Make(prometheus::Registry& registry, Builder builder, const char* name, const char* help) {
  return builder.Name(name).Help(help).Register(registry);
}

}  // namespace

struct Metrics::Families {
  prometheus::Registry registry;
  prometheus::Family<prometheus::Counter>& requests = Make(registry, prometheus::BuildCounter(), "qkv_requests_total",
                                                           "Requests by route, method and status of the answer.");
  prometheus::Family<Histogram>& request_seconds = Make(registry, prometheus::BuildHistogram(), "qkv_request_seconds",
                                                        "Time from a request's header to the end of its answer.");
  prometheus::Family<prometheus::Counter>& left = Make(registry, prometheus::BuildCounter(), "qkv_clients_left_total",
                                                       "Requests whose client left before the end of the answer.");
  prometheus::Family<prometheus::Counter>& sent =
      Make(registry, prometheus::BuildCounter(), "qkv_sent_bytes_total", "Bytes of answers' bodies.");
  prometheus::Family<Histogram>& wait_seconds =
      Make(registry, prometheus::BuildHistogram(), "qkv_wait_seconds", "Time of each task in the engine's queue.");
  prometheus::Family<Histogram>& compute_seconds =
      Make(registry, prometheus::BuildHistogram(), "qkv_compute_seconds", "Time of a batch in the engine.");
  prometheus::Family<Histogram>& batch_size =
      Make(registry, prometheus::BuildHistogram(), "qkv_batch_size", "Images or texts computed together.");
  prometheus::Family<Histogram>& decode_seconds =
      Make(registry, prometheus::BuildHistogram(), "qkv_decode_seconds", "Time to decode an image's file.");
  prometheus::Family<Histogram>& prepare_seconds =
      Make(registry, prometheus::BuildHistogram(), "qkv_prepare_seconds",
           "Time to make a model's input of a decoded image: resizing and normalising.");
  prometheus::Family<prometheus::Counter>& tokens =
      Make(registry, prometheus::BuildCounter(), "qkv_tokens_total", "Tokens that text models have read and written.");
  prometheus::Family<prometheus::Counter>& model_events = Make(
      registry, prometheus::BuildCounter(), "qkv_model_events_total", "Models loaded, loaded again, unloaded, failed.");
  prometheus::Gauge& active =
      Make(registry, prometheus::BuildGauge(), "qkv_active_requests", "Requests that are worked on.").Add({});
  prometheus::Family<prometheus::Gauge>& waiting =
      Make(registry, prometheus::BuildGauge(), "qkv_queue_depth", "Tasks that wait for the engine.");
  prometheus::Gauge& models =
      Make(registry, prometheus::BuildGauge(), "qkv_models_loaded", "Models in memory.").Add({});
  prometheus::Gauge& model_bytes =
      Make(registry, prometheus::BuildGauge(), "qkv_model_bytes",
           "Memory of models: their weights, what the explorer derives of them, unloaded ones still in use.")
          .Add({});
  prometheus::Gauge& build = Make(registry, prometheus::BuildGauge(), "qkv_build_info", "Always 1; its version.")
                                 .Add({{"version", QKV_VERSION}}, 1);
  std::mutex mutex;                                     // guards the gauges by model
  std::map<std::string, prometheus::Gauge*> of_models;  // in `waiting`
};

Metrics::Metrics() : families_(std::make_unique<Families>()) {}
Metrics::~Metrics() = default;

void Metrics::CountRequest(std::string_view route, const HttpRequest& request, const Outcome& outcome) {
  const std::string name(route.empty() ? "other" : route);
  const std::string method = route.empty() ? "other" : request.method;
  families_->requests.Add({{"route", name}, {"method", method}, {"status", std::to_string(outcome.status)}})
      .Increment();
  families_->request_seconds.Add({{"route", name}}, kSeconds).Observe(outcome.seconds);
  families_->sent.Add({{"route", name}}).Increment(static_cast<double>(outcome.sent));
  if (outcome.client_left) families_->left.Add({{"route", name}}).Increment();
}

void Metrics::CountBatch(const BatchReport& report) {
  const prometheus::Labels labels = {{"model", report.labels.model}, {"work", report.labels.work}};
  for (const double waited : report.waited) families_->wait_seconds.Add(labels, kSeconds).Observe(waited);
  families_->compute_seconds.Add(labels, kSeconds).Observe(report.computed);
  families_->batch_size.Add(labels, kSizes).Observe(static_cast<double>(report.size));
}

void Metrics::CountDecoding(const std::string& model, double seconds) {
  families_->decode_seconds.Add({{"model", model}}, kSeconds).Observe(seconds);
}

void Metrics::CountPreparing(const std::string& model, double seconds) {
  families_->prepare_seconds.Add({{"model", model}}, kSeconds).Observe(seconds);
}

void Metrics::CountTokens(const std::string& model, int64_t read, int64_t written) {
  families_->tokens.Add({{"model", model}, {"direction", "read"}}).Increment(static_cast<double>(read));
  families_->tokens.Add({{"model", model}, {"direction", "written"}}).Increment(static_cast<double>(written));
}

void Metrics::CountModelEvent(const std::string& model, std::string_view event) {
  families_->model_events.Add({{"model", model}, {"event", std::string(event)}}).Increment();
}

std::string Metrics::Text(const Levels& levels) {
  const std::lock_guard lock(families_->mutex);
  for (const auto& [model, gauge] : families_->of_models) gauge->Set(0);
  for (const auto& [model, tasks] : levels.waiting) {
    prometheus::Gauge*& gauge = families_->of_models[model];
    if (gauge == nullptr) gauge = &families_->waiting.Add({{"model", model}});
    gauge->Set(static_cast<double>(tasks));
  }
  families_->active.Set(static_cast<double>(levels.active));
  families_->models.Set(static_cast<double>(levels.models));
  families_->model_bytes.Set(static_cast<double>(levels.model_bytes));
  std::vector<prometheus::MetricFamily> families = families_->registry.Collect();
  for (prometheus::MetricFamily& family : ProcessFamilies()) families.push_back(std::move(family));
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace qkv::server
