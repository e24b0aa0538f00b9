// Configurations of all families: any text either describes a model or is refused with an Error. Input that is a
// safetensors file is described from its tensors instead.
#include <cstdint>
#include <string_view>

#include "qkv/core/error.h"
#include "qkv/model/checkpoint/bind.h"
#include "qkv/model/checkpoint/checkpoint.h"
#include "qkv/model/families/describe.h"
#include "qkv/model/layout/cost.h"

namespace {

// vit-pytorch's configuration leans on this tensor's shape. It has no elements, so it needs no bytes.
constexpr std::string_view kHeader =
    R"({"to_patch_embedding.2.weight":{"dtype":"F32","shape":[8,0],"data_offsets":[0,0]}})";

qkv::io::SafeTensors FewTensors() {
  static const std::string file = [] {
    std::string bytes(8, '\0');
    bytes[0] = static_cast<char>(kHeader.size());
    return bytes.append(kHeader);
  }();
  return qkv::io::SafeTensors::FromBytes(std::as_bytes(std::span(file)), "fuzz");
}

void Use(const qkv::model::Description& description, const qkv::io::SafeTensors& tensors) {
  qkv::model::Flops(description.config);
  qkv::model::BindTowers(description.config, description.text ? &*description.text : nullptr,
                         description.decoder ? &*description.decoder : nullptr, tensors);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const auto tensors = qkv::io::SafeTensors::FromBytes(std::as_bytes(std::span(data, size)), "fuzz");
    Use(qkv::model::DescribeFromTensors(tensors, {.heads = 1}), tensors);
    return 0;
  } catch (const qkv::Error&) {
  }
  static const qkv::io::SafeTensors few = FewTensors();
  try {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const qkv::io::Json json = qkv::io::ParseJson(text, "config.json");
    // The same text as configuration of the model, and as configuration of the image processor.
    Use(qkv::model::Describe(json, json, few), few);
  } catch (const qkv::Error&) {
  }
  return 0;
}
