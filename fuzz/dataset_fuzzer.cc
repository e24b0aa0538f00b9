// Any bytes as each of the files that data sets come in, unpacked (archive_fuzzer.cc): read, or refused with an Error.
#include <cstdlib>
#include <string_view>

#include "qkv/core/error.h"
#include "qkv/train/data/dataset_formats.h"

namespace {

void Check(bool ok) {
  if (!ok) std::abort();
}

// Whether f throws no Error.
template <typename F>
bool Accepts(F&& f) {
  try {
    f();
    return true;
  } catch (const qkv::Error&) {
    return false;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace qkv::train;
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  Accepts([&] {
    const Idx idx = ParseIdx(bytes, "fuzz");
    size_t elements = 1;
    for (const int64_t extent : idx.extents) elements *= static_cast<size_t>(extent);
    Check(elements == idx.values.size() && elements < size);
  });
  Accepts([&] {
    std::vector<int64_t> labels;
    std::vector<uint8_t> pixels;
    ParseCifar(bytes, 1 + static_cast<int64_t>(size % 2), 10, "fuzz", &labels, &pixels);
    Check(pixels.size() == labels.size() * 3072 && pixels.size() < size);
    for (const int64_t label : labels) Check(label >= 0 && label < 10);
  });
  Accepts([&] {
    for (const CsvRow& row : ParseCsv(std::string_view(reinterpret_cast<const char*>(data), size), "fuzz")) {
      Check(!row.path.empty() && !row.label.empty());
    }
  });
  return 0;
}
