// Memory of decoding: what a header declares is refused before anything of its size is allocated, and real images take
// no more than they asked for.
#include <fmt/format.h>

#include <limits>

#include "qkv/core/memory.h"
#include "qkv/image/codec.h"
#include "tests/image/golden.h"
#include "tests/image/headers.h"
#include "tests/support/errors.h"
#include "tests/support/heap_peak.h"

namespace qkv::image {
namespace {

// What a library may hold of a file's own bytes, its metadata twice.
int64_t OfFile(size_t bytes) { return 3 * static_cast<int64_t>(bytes) + kFixedBytes; }

std::string Refusal(const std::string& file, const DecodeOptions& options) {
  return ErrorMessage([&] { Decode(std::as_bytes(std::span(file)), options, "the/file"); });
}

constexpr std::pair<int64_t, int64_t> kSizes[] = {
    {int64_t{1} << 30, 1}, {1, int64_t{1} << 30}, {int64_t{1} << 29, 1},  {1, int64_t{1} << 29},
    {INT32_MAX, 1},        {1, INT32_MAX},        {INT32_MAX, INT32_MAX}, {65535, 65535},
    {65535, 4096},         {4096, 65535},         {int64_t{1} << 28, 64}, {64, int64_t{1} << 28}};

// Formats whose fields are narrower get the largest size that they hold.
TEST(Admission, LargeHeadersAreRefusedBeforeTheirMemory) {
  for (const auto& [name, make] : HostileHeaders()) {
    for (const auto& [width, height] : kSizes) {
      const std::string file = make(width, height), what = fmt::format("{} {}x{}", name, width, height);
      const HeapPeak heap(OfFile(file.size()));
      const std::string error = Refusal(file, {.max_pixels = 1 << 12});
      EXPECT_NE(error.find("the/file: "), std::string::npos) << what << ": " << error;
      EXPECT_NE(error.find("limit"), std::string::npos) << what << ": " << error;
      EXPECT_LE(heap.bytes(), OfFile(file.size())) << what << ": " << error;
    }
  }
}

// Without a limit of pixels admission is asked, or a plain format finds that its file is too short; nothing precedes
// it.
TEST(Admission, IsAskedBeforeLibrariesAllocateByTheHeader) {
  for (const auto& [name, make] : HostileHeaders()) {
    int asked = 0;
    for (const auto& [width, height] : kSizes) {
      const std::string file = make(width, height), what = fmt::format("{} {}x{}", name, width, height);
      int64_t admitted = 0;
      DecodeOptions options{.max_pixels = std::numeric_limits<int64_t>::max()};
      options.admit = [&](int64_t bytes) {
        admitted = bytes;
        Fail("the/file: no room");
      };
      const HeapPeak heap(OfFile(file.size()));
      const std::string error = Refusal(file, options);
      EXPECT_FALSE(error.empty()) << what;
      EXPECT_LE(heap.bytes(), OfFile(file.size())) << what << ": " << error;
      asked += admitted > 0 || error.find("--max-memory") != std::string::npos ||
               error == fmt::format("the/file: the file ends too early, at byte {}", file.size());
    }
    EXPECT_GT(asked, 0) << name;
  }
}

// A limit of memory holds without a limit of pixels.
TEST(Admission, IsHeldToTheMemoryLimit) {
  const int64_t before = MemoryLimit();
  SetMemoryLimit(10'000'000);
  const HeapPeak heap(2 * kFixedBytes);
  const std::string error = Refusal(PngHeader(16, 6, true)(1000, 1000), {});
  SetMemoryLimit(before);
  EXPECT_TRUE(error.starts_with("the/file: decoding it would take about 12 MB")) << error;
  EXPECT_NE(error.find("--max-memory"), std::string::npos) << error;
}

void ExpectWithinAdmitted(std::string_view name, std::span<const std::byte> file) {
  for (const bool window : {false, true}) {
    int64_t admitted = 0;
    DecodeOptions options{.admit = [&](int64_t bytes) {
      EXPECT_GT(bytes, admitted) << name;
      admitted = bytes;
    }};
    if (window) options.window = std::pair(100.0, 3000.0);
    const HeapPeak heap;
    const Image image = Decode(file, options, name);
    EXPECT_LE(heap.bytes(), admitted + OfFile(file.size())) << name;
    EXPECT_GE(admitted, image.pixels.size()) << name;
    // Nor is far more admitted than is taken. (libheif does not tell what its decoders need, and single strips of a
    // TIFF are not told from a codec's working memory.)
    EXPECT_LE(admitted, 5 * heap.bytes()) << name;
  }
}

TEST(Admission, CoversWhatDecodingTakes) {
  const auto large = io::SafeTensors::Open(GoldenFolder() / "large.safetensors");
  int files = 0;
  for (const auto& [name, file] : WithPrefix(large, "file/")) {
    ExpectWithinAdmitted(name, file.bytes);
    ++files;
  }
  EXPECT_GE(files, 40);
}

// Formats without compression, which would be long files.
TEST(Admission, CoversWhatPlainFormatsTake) {
  constexpr int64_t kWidth = 1203, kHeight = 901;
  for (const auto& [name, make, pixel_bytes] : {std::tuple{"P6", PnmHeader("P6", 255), int64_t{3}},
                                                {"P6 of 16 bits", PnmHeader("P6", 65535), 6},
                                                {"P5 of 16 bits", PnmHeader("P5", 65535), 2},
                                                {"BMP of 24 bits", BmpHeader(24, 0), 3},
                                                {"BMP of 32 bits", BmpHeader(32, 0), 4},
                                                {"BMP of 8 bits", BmpHeader(8, 0), 1}}) {
    std::string file = make(kWidth, kHeight);
    file.resize(file.size() + static_cast<size_t>((kWidth + 3) * kHeight * pixel_bytes));
    ExpectWithinAdmitted(name, std::as_bytes(std::span(file)));
  }
}

// The pixels of a file one pixel wide: rows are many, and each has the library's attention.
TEST(Admission, CoversTallImages) {
  std::string file = BmpHeader(24, 0)(1, 1 << 20);
  file.resize(file.size() + (size_t{4} << 20));
  ExpectWithinAdmitted("tall BMP", std::as_bytes(std::span(file)));
}

}  // namespace
}  // namespace qkv::image
