#include "qkv/server/process_metrics.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

namespace qkv::server {
namespace {

// The fields of /proc/self/stat from the third on: the second, the program's name, may hold anything.
std::vector<double> StatFields() {
  std::ifstream file("/proc/self/stat");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const size_t name = text.rfind(')');
  if (name == std::string::npos) return {};
  std::istringstream rest(text.substr(name + 1));
  std::string state;
  rest >> state;
  return {std::istream_iterator<double>(rest), {}};
}

// Since 1970.
double BootSeconds() {
  std::ifstream file("/proc/stat");
  for (std::string word; file >> word;) {
    double seconds = 0;
    if (word == "btime" && file >> seconds) return seconds;
  }
  return 0;
}

double CountFiles() {
  std::error_code error;
  double count = 0;
  for (std::filesystem::directory_iterator file("/proc/self/fd", error), end; !error && file != end;
       file.increment(error)) {
    ++count;
  }
  return count - 1;  // the folder's own
}

prometheus::MetricFamily Family(const char* name, const char* help, double value, bool counter = false) {
  prometheus::ClientMetric metric;
  (counter ? metric.counter.value : metric.gauge.value) = value;
  return {name, help, counter ? prometheus::MetricType::Counter : prometheus::MetricType::Gauge, {metric}};
}

}  // namespace

std::vector<prometheus::MetricFamily> ProcessFamilies() {
  // Numbers of proc(5), counted from the field after the state.
  constexpr size_t kUserTime = 10, kSystemTime = 11, kThreads = 16, kStart = 18, kVirtual = 19, kResident = 20;
  const std::vector<double> fields = StatFields();
  if (fields.size() <= kResident) return {};
  const auto ticks = static_cast<double>(::sysconf(_SC_CLK_TCK)), page = static_cast<double>(::sysconf(_SC_PAGESIZE));
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  return {
      Family("process_cpu_seconds_total", "Time of the processor, user and system.",
             (fields[kUserTime] + fields[kSystemTime]) / ticks, /*counter=*/true),
      Family("process_resident_memory_bytes", "Memory that is resident.", fields[kResident] * page),
      Family("process_virtual_memory_bytes", "Memory that is mapped.", fields[kVirtual]),
      Family("process_open_fds", "Open file descriptors.", CountFiles()),
      Family("process_max_fds", "Most file descriptors that may be open.", static_cast<double>(files.rlim_cur)),
      Family("process_start_time_seconds", "Start of the process, since 1970.", BootSeconds() + fields[kStart] / ticks),
      Family("process_threads", "Threads of the process.", fields[kThreads])};
}

}  // namespace qkv::server
