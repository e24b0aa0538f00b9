// Any bytes as a slide in TIFF: opened under a small limit of memory, a region of each level, the pictures beside them,
// an overview.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "qkv/core/memory.h"
#include "qkv/core/parallel.h"
#include "qkv/slide/read/readers.h"

namespace {

/// A file in memory, which libtiff reads by its descriptor.
class MemoryFile {
 public:
  MemoryFile(const uint8_t* data, size_t size) : descriptor_(::memfd_create("slide", 0)) {
    if (descriptor_ < 0 || ::write(descriptor_, data, size) != static_cast<ssize_t>(size)) std::abort();
  }
  ~MemoryFile() { ::close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::filesystem::path path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

void TryRead(const qkv::slide::Slide& slide) {
  using namespace qkv;
  image::Image pixels;
  for (int level = 0; level < std::ssize(slide.facts().levels); ++level) {
    const slide::Level& size = slide.facts().levels[static_cast<size_t>(level)];
    for (const auto& [x, y] : {std::pair(int64_t{-3}, int64_t{-3}), std::pair(size.width - 40, size.height - 40)}) {
      try {
        slide.Read(level, {x, y, 50, 45}, pixels);
      } catch (const Error&) {
      }
    }
  }
  for (const std::string& name : slide.facts().associated) {
    try {
      slide.ReadAssociated(name);
    } catch (const Error&) {
    }
  }
  const slide::Level& coarsest = slide.facts().levels.back();
  // A large one would take the fuzzer's time, not its memory.
  if (coarsest.width * coarsest.height < 1 << 20) slide::ReadOverview(slide, 33);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace qkv;
  SetMemoryLimit(int64_t{64} << 20);
  SetNumThreads(1);
  const MemoryFile file(data, size);
  try {
    std::string why;
    const auto slide = slide::OpenTiff(file.path(), {}, why);
    if (slide != nullptr) TryRead(*slide);
  } catch (const Error&) {  // what a bad file should do
  }
  return 0;
}
