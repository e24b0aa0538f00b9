// Any bytes are a valid safetensors file or an Error; what is valid can be found and converted.
#include <cstdlib>

#include "qkv/core/error.h"
#include "qkv/io/safetensors.h"

namespace {

void Check(bool ok) {
  if (!ok) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const auto file = qkv::io::SafeTensors::FromBytes(std::as_bytes(std::span(data, size)), "fuzz");
    size_t bytes = 0;
    for (const qkv::io::StoredTensor& tensor : file.tensors()) {
      Check(file.Find(tensor.name) == &tensor);
      bytes += tensor.bytes.size();
      switch (tensor.dtype) {
        case qkv::DType::kF16:
        case qkv::DType::kBF16:
        case qkv::DType::kF32:
        case qkv::DType::kF64:
          Check(qkv::io::Convert<float>(tensor).shape() == tensor.shape);
          Check(qkv::io::Convert<double>(tensor).shape() == tensor.shape);
          break;
        default:
          break;
      }
    }
    Check(bytes == file.bytes() && bytes <= size);
  } catch (const qkv::Error&) {
  }
  return 0;
}
