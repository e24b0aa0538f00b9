// Any bytes as an image file: decoded under a small limit, brought to a model's channels, resized. Decoding may take no
// more memory than it was admitted with.
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "qkv/image/image.h"
#include "qkv/image/resize.h"
#include "tests/support/heap_peak.h"

// Over some damaged files libheif loses 256 bytes of a picture of its own, and dav1d, which decodes AVIF for it, 40.
extern "C" const char* __lsan_default_suppressions() {  // NOLINT: LeakSanitizer's name
  return "leak:libdav1d\nleak:heif_image_create";
}

namespace {

// A library's tables, and what it keeps of the file (qkv/image/codec.h).
constexpr int64_t kFixedBytes = int64_t{1} << 20, kFileShare = 3;

// What is in files of other formats decides on memory that they do not declare: coded pictures, windows of LZMA and
// ZSTD.
bool IsBounded(std::string_view file) {
  for (const std::string_view part : {"ftyp",
                                      "\xFD"
                                      "7zXZ",
                                      "\x28\xB5\x2F\xFD"})
    if (file.find(part) != file.npos) return false;
  return true;
}

void CheckMemory(int64_t peak, int64_t admitted, std::string_view file) {
  const int64_t most = admitted + kFileShare * static_cast<int64_t>(file.size()) + kFixedBytes;
  if (peak <= most || !IsBounded(file)) return;
  std::fprintf(stderr, "decoding took %lld bytes, %lld were admitted\n", static_cast<long long>(peak),
               static_cast<long long>(admitted));
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace qkv;
  using namespace qkv::image;
  DecodeOptions options;
  options.max_pixels = 1 << 16;
  // The first bit of the last byte, which few formats look at, chooses a window.
  if (size > 0 && data[size - 1] % 2 != 0) options.window = std::pair(100.0, 3000.0);
  int64_t admitted = 0;
  options.admit = [&](int64_t bytes) { admitted = bytes; };
  const std::string_view file(reinterpret_cast<const char*>(data), size);
  const auto decode = [&] {
    const HeapPeak heap;
    try {
      Image image = Decode(std::as_bytes(std::span(data, size)), options, "input");
      CheckMemory(heap.bytes(), admitted, file);
      return image;
    } catch (const Error&) {
      CheckMemory(heap.bytes(), admitted, file);
      throw;
    }
  };
  try {
    const Image image = decode();
    Resize(image, 7, 9, Filter::kBicubic);
    Resize(ToChannels(image, 1), 40, 3, Filter::kLanczos);
  } catch (const Error&) {  // what a bad file should do
  }
  return 0;
}
