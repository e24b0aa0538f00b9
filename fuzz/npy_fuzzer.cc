// Any bytes are a .npy file or an Error; what is valid can be converted.
#include <cstdlib>

#include "qkv/core/error.h"
#include "qkv/io/npy.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const auto set = qkv::io::NpyFromBytes(std::as_bytes(std::span(data, size)), "fuzz");
    const qkv::io::StoredTensor& array = set.tensors().front();
    if (set.tensors().size() != 1 || array.bytes.size() > size) std::abort();
    if (qkv::io::Convert<float>(array).shape() != array.shape) std::abort();
  } catch (const qkv::Error&) {
  }
  return 0;
}
