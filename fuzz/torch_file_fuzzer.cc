// Any bytes are a file by torch.save or an Error; the tensors of every dictionary lie in the file or in memory that is
// bounded by its size.
#include <cstdlib>

#include "qkv/core/error.h"
#include "qkv/core/memory.h"
#include "qkv/io/torch_file.h"

namespace {

void Check(bool ok) {
  if (!ok) std::abort();
}

// Touches every byte.
size_t Sum(std::span<const std::byte> bytes) {
  size_t sum = 0;
  for (const std::byte byte : bytes) sum += std::to_integer<size_t>(byte);
  return sum;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  qkv::SetMemoryLimit(int64_t{256} << 20);
  try {
    const auto file = qkv::io::TorchFile::FromBytes(std::as_bytes(std::span(data, size)), "fuzz");
    Check(!file.dictionaries().empty());
    const qkv::io::TorchDictionary& chosen = file.Choose("");
    Check(file.Choose(chosen.path).path == chosen.path);
    file.DescribeChoice(chosen);
    for (const qkv::io::TorchDictionary& dictionary : file.dictionaries()) {
      try {
        qkv::io::TensorSet set;
        file.AddTensors(dictionary, nullptr, &set);
        size_t sum = 0;
        for (const qkv::io::StoredTensor& tensor : set.tensors()) {
          Check(tensor.bytes.size() == static_cast<size_t>(tensor.shape.size()) * qkv::ElementSize(tensor.dtype));
          sum += Sum(tensor.bytes);
        }
        Check(set.bytes() <= (size_t{1} << 20) + 64 * size && sum <= 255 * set.bytes());
        set.Finish("fuzz");
      } catch (const qkv::Error&) {
      }
    }
  } catch (const qkv::Error&) {
  }
  return 0;
}
