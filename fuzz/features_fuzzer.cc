// Any bytes are a file of features or an Error, in time and memory that the size of the file bounds.
#include <cstdlib>

#include "qkv/core/error.h"
#include "qkv/core/memory.h"
#include "qkv/core/work.h"
#include "qkv/slide/files/feature_file.h"

namespace {

void Check(bool ok) {
  if (!ok) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  qkv::SetMemoryLimit(int64_t{64} << 20);
  const int64_t before = qkv::StepsDone();
  try {
    const auto file = qkv::slide::ReadFeatureBytes(std::as_bytes(std::span(data, size)), "fuzz");
    Check(file.features.rank() == 2 && file.features.size() <= static_cast<int64_t>(1032 * size));
    volatile float sum = 0;
    for (const float value : file.features.span()) sum = sum + value;
  } catch (const qkv::Error&) {
  }
  // Packed bytes are a thousandth of what they hold; attributes may share a heap of texts.
  Check(qkv::StepsDone() - before <= (int64_t{1} << 26) + 2048 * static_cast<int64_t>(size));
  return 0;
}
