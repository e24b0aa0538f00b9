// Damaged, cut and lying image files: an Error that names the file, never a crash, never half a picture.
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "qkv/core/file.h"
#include "qkv/core/memory.h"
#include "qkv/core/rng.h"
#include "qkv/image/workspace.h"
#include "tests/image/golden.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"

namespace qkv::image {
namespace {

class HostileImages : public testing::Test {
 protected:
  HostileImages() : golden_(io::SafeTensors::Open(GoldenFolder() / "decode.safetensors")) {}

  std::vector<std::byte> File(const std::string& name) const {
    const auto bytes = golden_.Find("file/" + name)->bytes;
    return {bytes.begin(), bytes.end()};
  }

  io::SafeTensors golden_;
};

std::string DecodeError(std::span<const std::byte> bytes, const DecodeOptions& options = {}) {
  try {
    Decode(bytes, options, "the/file");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::string DecodeError(const std::string& text, const DecodeOptions& options = {}) {
  return DecodeError(std::as_bytes(std::span(text)), options);
}

// A file cut anywhere is refused, or lost nothing that matters: bytes after the picture.
TEST_F(HostileImages, CutFilesAreRefused) {
  int accepted = 0, tried = 0;
  for (const auto& [name, tensor] : WithPrefix(golden_, "file/")) {
    if (name.starts_with("pnm_p3")) continue;  // its last number may end anywhere
    const Image whole = Decode(tensor.bytes, {}, name);
    for (size_t length = 0; length < tensor.bytes.size(); length += 1 + tensor.bytes.size() / 97) {
      ++tried;
      try {
        // A copy of just that length, so that asan sees a read past it.
        const std::vector<std::byte> cut(tensor.bytes.begin(), tensor.bytes.begin() + static_cast<ptrdiff_t>(length));
        const Image image = Decode(cut, {.exif_orientation = true}, name);
        ++accepted;
        ExpectSame(ToChannels(image, 3), ToChannels(whole, 3), fmt::format("{} cut to {} bytes", name, length));
      } catch (const Error& error) {
        EXPECT_TRUE(std::string_view(error.what()).starts_with(name)) << error.what();
      }
    }
  }
  EXPECT_LT(accepted * 10, tried);
}

TEST_F(HostileImages, FlippedBitsNeverCrash) {
  Rng rng(7);
  const DecodeOptions options{.max_pixels = 1 << 16};
  for (const auto& [name, tensor] : WithPrefix(golden_, "file/")) {
    for (int trial = 0; trial < 40; ++trial) {
      std::vector<std::byte> bytes(tensor.bytes.begin(), tensor.bytes.end());
      // Most in the header, where lies matter most.
      const size_t range = trial % 4 == 0 ? bytes.size() : std::min<size_t>(bytes.size(), 64);
      for (int flips = 0; flips <= trial % 3; ++flips)
        bytes[rng.Next() % range] ^= static_cast<std::byte>(1 << rng.Next() % 8);
      DecodeError(bytes, options);
    }
  }
}

TEST_F(HostileImages, BombsAreRefusedBeforeTheyAreDecoded) {
  for (const auto& [name, tensor] : WithPrefix(golden_, "file/")) {
    const Image image = Decode(tensor.bytes, {}, name);
    // A tile counts whole, and these are larger than their picture.
    const int64_t pixels = name.find("tiles") == name.npos ? image.height() * image.width() : 256;
    EXPECT_EQ(DecodeError(tensor.bytes, {.max_pixels = pixels}), "") << name;
    const std::string error = DecodeError(tensor.bytes, {.max_pixels = pixels - 1});
    EXPECT_NE(error.find("more than the limit"), std::string::npos) << name << ": " << error;
  }
  EXPECT_NE(DecodeError("P6 100000 100000 255\n").find("100000 x 100000 pixels are more than the limit of 178956970"),
            std::string::npos);
}

TEST_F(HostileImages, EachErrorSaysWhereAndWhat) {
  EXPECT_EQ(DecodeError(""), "the/file: an empty file");
  EXPECT_EQ(DecodeError("GIF"), "the/file: no JPEG, PNG, WebP, GIF, BMP, TIFF, HEIC, AVIF, JPEG 2000, DICOM or PPM");
  EXPECT_EQ(DecodeError("<svg></svg>"),
            "the/file: no JPEG, PNG, WebP, GIF, BMP, TIFF, HEIC, AVIF, JPEG 2000, DICOM or PPM");
  EXPECT_EQ(DecodeError("P5 0 5 255\n"), "the/file: an image of 0 x 5 pixels");
  EXPECT_EQ(DecodeError("P5 2 2 255\nabc"), "the/file: the file ends too early, at byte 14");
  EXPECT_EQ(DecodeError("P2 1 1 255\n256"), "the/file: PNM: 256 is more than the maximum of 255");
  EXPECT_EQ(DecodeError("P2 1 1 70000\n256"), "the/file: PNM: a maximum of 70000");
  EXPECT_NE(DecodeError("P2 1 1 255\n-6").find("no number before byte"), std::string::npos);
  EXPECT_NE(DecodeError("P2 1 99999999999 255\n6").find("no number before byte"), std::string::npos);
  auto jpeg = File("jpeg_420.jpg");
  EXPECT_NE(DecodeError(std::span(jpeg).first(jpeg.size() - 40)).find("the/file: JPEG: "), std::string::npos);
  // The end-of-image marker pulled forward: libjpeg would only warn, and fill up with grey.
  auto grey = std::vector(jpeg.begin(), jpeg.end() - 100);
  grey.push_back(std::byte{0xFF}), grey.push_back(std::byte{0xD9});
  EXPECT_NE(DecodeError(grey).find("premature end"), std::string::npos) << DecodeError(grey);
  auto png = File("png_rgb_8.png");
  png[png.size() / 2] ^= std::byte{1};
  EXPECT_NE(DecodeError(png).find("the/file: PNG: "), std::string::npos);
}

// A header of 20 bytes that claims half a gigabyte: refused before there is room for it.
TEST_F(HostileImages, PixelsThatAreNotThereGetNoRoom) {
  EXPECT_EQ(DecodeError("P6 13377 13377 255\n"), "the/file: the file ends too early, at byte 19");
}

// A hundred bytes that claim a table of 170 million strips: refused before the table is made.
TEST_F(HostileImages, TablesLargerThanTheFileAreRefused) {
  constexpr uint32_t kRows = 170'000'000;
  const uint32_t entries[][4] = {{256, 4, 1, 1}, {257, 4, 1, kRows}, {258, 3, 1, 8},
                                 {259, 3, 1, 1}, {262, 3, 1, 1},     {273, 4, kRows, 8},
                                 {277, 3, 1, 1}, {278, 4, 1, 1},     {279, 4, kRows, 8}};
  std::string tiff("II*\0\x08\0\0\0\x09\0", 10);
  const auto append = [&](uint32_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) tiff.push_back(static_cast<char>(value >> (8 * i)));
  };
  for (const auto& [tag, kind, count, value] : entries)
    append(tag, 2), append(kind, 2), append(count, 4), append(value, 4);
  append(0, 4);
  EXPECT_NE(DecodeError(tiff).find("the/file: TIFF: "), std::string::npos) << DecodeError(tiff);
}

// libpng would make room for the whole chunk before it looks for it.
TEST_F(HostileImages, ChunksLongerThanTheFileAreRefused) {
  auto png = File("png_exif_3.png");
  const std::string_view text(reinterpret_cast<const char*>(png.data()), png.size());
  const size_t at = text.find("eXIf");
  ASSERT_NE(at, text.npos);
  png[at - 4] = std::byte{0x57};
  EXPECT_EQ(DecodeError(png), "the/file: PNG: the file ends too early");
}

// As Pillow and browsers open them: zlib's checksum tells of damaged pixels, and what is behind them may be missing.
TEST_F(HostileImages, PngsAreReadUpToTheirPixels) {
  const auto png = File("png_exif_3.png");
  const Image expected = Decode(png, {}, "whole");
  const auto at = [&](std::string_view name) {
    return std::string_view(reinterpret_cast<const char*>(png.data()), png.size()).find(name);
  };
  const size_t length = static_cast<size_t>(png[at("IDAT") - 2]) * 256 + static_cast<size_t>(png[at("IDAT") - 1]);
  auto changed = png;
  changed[at("IDAT") + 4 + length] ^= std::byte{1};  // the chunk's checksum
  EXPECT_TRUE(std::ranges::equal(Decode(changed, {}, "checksum").pixels.span(), expected.pixels.span()));
  changed[at("IDAT") + 3 + length] ^= std::byte{1};  // zlib's
  EXPECT_NE(DecodeError(changed), "");
  changed = png;
  changed[at("IHDR") + 17] ^= std::byte{1};  // the header's
  EXPECT_NE(DecodeError(changed), "");
  for (size_t end = at("IDAT") + 8 + length; end < png.size(); ++end) {
    const std::vector<std::byte> cut(png.begin(), png.begin() + static_cast<std::ptrdiff_t>(end));
    EXPECT_TRUE(std::ranges::equal(Decode(cut, {}, "cut").pixels.span(), expected.pixels.span())) << end;
  }
  EXPECT_EQ(DecodeError(std::vector<std::byte>(png.begin(),
                                               png.begin() + static_cast<std::ptrdiff_t>(at("IDAT") + 4 + length / 2))),
            "the/file: PNG: the file ends too early");
}

// A progressive JPEG may repeat scans without end, each as costly as a whole picture.
TEST_F(HostileImages, EndlessScansAreRefused) {
  const auto jpeg = File("jpeg_grey_progressive.jpg");
  // The first scan (start-of-scan marker up to the next marker), many times over.
  size_t begin = 0, end = 0;
  for (size_t i = 0; i + 1 < jpeg.size() && end == 0; ++i) {
    if (jpeg[i] != std::byte{0xFF}) continue;
    if (begin == 0 && jpeg[i + 1] == std::byte{0xDA}) {
      begin = i;
    } else if (begin != 0 && jpeg[i + 1] != std::byte{0}) {
      end = i;
    }
  }
  ASSERT_GT(end, begin);
  const auto at = [&](size_t i) { return jpeg.begin() + static_cast<ptrdiff_t>(i); };
  std::vector<std::byte> bomb(at(0), at(end));
  for (int i = 0; i < 1000; ++i) bomb.insert(bomb.end(), at(begin), at(end));
  bomb.insert(bomb.end(), at(end), jpeg.end());
  EXPECT_EQ(DecodeError(bomb), "the/file: JPEG: more than 200 scans");
}

// Another process cuts the file while it is read: a picture or an Error, and the process goes on.
TEST_F(HostileImages, FilesThatShrinkWhileTheyAreReadAreRefused) {
  const TemporaryFolder folder;
  const auto path = folder / "image";
  for (const auto& [name, tensor] : WithPrefix(golden_, "file/")) {
    const std::string whole(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
    std::atomic<bool> done = false;
    WriteFile(path, whole);
    std::thread other([&] {
      for (size_t length = 0; !done; length = (length + 97) % whole.size()) {
        if (::truncate(path.c_str(), static_cast<off_t>(length)) != 0) return;
        std::ofstream(path, std::ios::binary) << whole;
      }
    });
    Image image;
    Workspace workspace;
    for (int i = 0; i < 20; ++i) {
      try {
        DecodeFile(path, {}, workspace, image);
      } catch (const Error& error) {
        EXPECT_TRUE(std::string_view(error.what()).find(path.native()) != std::string_view::npos) << error.what();
      }
    }
    done = true;
    other.join();
  }
}

// A long file takes no more than may be used, and its memory is given back.
TEST_F(HostileImages, LongFilesAreHeldToMemory) {
  const TemporaryFolder folder;
  const auto path = folder / "sparse.png";
  WriteFile(path, std::string_view("\x89PNG\r\n\x1A\n"));
  std::filesystem::resize_file(path, uintmax_t{200} << 20);
  Workspace workspace;
  Image image;
  const int64_t before = MemoryLimit();
  SetMemoryLimit(100'000'000);
  EXPECT_NE(ErrorMessage([&] { DecodeFile(path, {}, workspace, image); }).find("--max-memory"), std::string::npos);
  SetMemoryLimit(before);
  EXPECT_THROW(DecodeFile(path, {}, workspace, image), Error);
  EXPECT_TRUE(workspace.file.empty());
}

// What is no image is not read into memory, whatever its length.
TEST_F(HostileImages, FilesThatAreNoImagesTakeNoMemory) {
  const TemporaryFolder folder;
  const auto path = folder / "sparse.png";
  WriteFile(path, "no picture");
  std::filesystem::resize_file(path, uintmax_t{1} << 40);
  Workspace workspace;
  Image image;
  EXPECT_NE(ErrorMessage([&] { DecodeFile(path, {}, workspace, image); }).find("no JPEG"), std::string::npos);
  EXPECT_TRUE(workspace.file.empty());
  WriteFile(path, "P5\n9 9 255\n");
  std::filesystem::resize_file(path, uintmax_t{1} << 40);
  EXPECT_NE(ErrorMessage([&] { DecodeFile(path, {}, workspace, image); }).find("--max-pixels"), std::string::npos);
  EXPECT_TRUE(workspace.file.empty());
}

}  // namespace
}  // namespace qkv::image
