// Configurations of all families: any text either describes a model or is refused with an Error.
#include <cstdint>
#include <string_view>

#include "qkv/core/error.h"
#include "qkv/model/checkpoint.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const qkv::io::SafeTensors none;
  try {
    const qkv::io::Json json = qkv::io::ParseJson(text, "config.json");
    // The same text as configuration of the model, and as configuration of the image processor.
    const qkv::model::Description description = qkv::model::Describe(json, json, none);
    qkv::model::Flops(description.config);
    qkv::model::Bind(description.config, none);
  } catch (const qkv::Error&) {
  }
  return 0;
}
