// The system's statistics of this process, under the names that Prometheus' own clients use.
#pragma once

#include <prometheus/metric_family.h>

#include <vector>

namespace qkv::server {

/// process_cpu_seconds_total, process_resident_memory_bytes, process_virtual_memory_bytes, process_open_fds,
/// process_max_fds, process_start_time_seconds and process_threads, from /proc; nothing where that is missing.
std::vector<prometheus::MetricFamily> ProcessFamilies();

}  // namespace qkv::server
