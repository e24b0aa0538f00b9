// Any bytes as the server's configuration: read, or refused with an Error. What is read is within its limits.
#include <cstdlib>
#include <set>
#include <string>

#include "qkv/server/config.h"

namespace {

void Check(bool ok) {
  if (!ok) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (text.find("key_file") != text.npos) return 0;  // names a file of this machine
  try {
    const auto config = qkv::server::ParseServerConfig(text, "/nowhere/server.yaml");
    std::set<std::string> ids;
    for (const qkv::server::ModelEntry& model : config.models) Check(!model.id.empty() && ids.insert(model.id).second);
    Check(config.limits.body >= 1 && config.limits.connections >= 1 && config.most_active >= 1);
    Check(config.batching.most_together >= 1 && config.batching.most_delay.count() >= 0 && config.request_seconds > 0);
  } catch (const qkv::Error&) {
  }
  return 0;
}
