// HEIC and AVIF against pillow-heif and Pillow (generate_heif.py), and damaged files.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/image/golden.h"
#include "tests/support/errors.h"

// dav1d, which decodes AVIF for libheif, loses 40 bytes over some damaged files.
// DCMTK keeps its list of codecs until the process ends.
extern "C" const char* __lsan_default_suppressions() {  // NOLINT: LeakSanitizer's name
  return "leak:libdav1d\nleak:DcmCodecList";
}

namespace qkv::image {
namespace {

class HeifFiles : public testing::Test {
 protected:
  std::string DecodeError(std::span<const std::byte> bytes, const DecodeOptions& options = {}) {
    return ErrorMessage([&] { Decode(bytes, options, "the/file"); });
  }

  const io::SafeTensors golden_ = io::SafeTensors::Open(GoldenFolder() / "heif.safetensors");
};

TEST_F(HeifFiles, DecodeAsByTheOriginals) {
  int files = 0;
  for (const auto& [name, file] : WithPrefix(golden_, "file/")) {
    const Image image = Decode(file.bytes, {}, name), rgb = ToChannels(image, 3);
    const Image expected = ToImage(*golden_.Find("rgb/" + name));
    ASSERT_EQ(rgb.pixels.shape(), expected.pixels.shape()) << name;
    const Difference difference = Compare(rgb, expected);
    // Pillow reads AVIF by libavif, which interpolates chroma otherwise than libheif; this picture is mostly noise.
    const int allowed = name.starts_with("exact") ? 0 : name == "lossy_420.avif" ? 80 : 2;
    EXPECT_LE(difference.greatest, allowed) << name << ": " << difference.count << " bytes differ";
    if (const io::StoredTensor* alpha = golden_.Find("alpha/" + name)) {
      ASSERT_EQ(image.channels(), 4) << name;
      for (int64_t i = 0; i < image.height() * image.width(); ++i) {
        ASSERT_NEAR(image.pixels[4 * i + 3], Bytes(*alpha)[i], name.starts_with("exact") ? 0 : 1) << name;
      }
    }
    // Their own turn always counts.
    ExpectSame(Decode(file.bytes, {.exif_orientation = false}, name), image, name);
    ++files;
  }
  EXPECT_EQ(files, 9);
  EXPECT_TRUE(HasImageEnding("a.HEIC") && HasImageEnding("a.heif") && HasImageEnding("a.avif"));
}

TEST_F(HeifFiles, BombsAreRefusedBeforeTheyAreDecoded) {
  for (const auto& [name, file] : WithPrefix(golden_, "file/")) {
    const Image image = Decode(file.bytes, {}, name);
    const int64_t pixels = image.height() * image.width();
    int64_t admitted = 0;
    DecodeOptions options{.max_pixels = pixels - 1, .admit = [&](int64_t more) { admitted += more; }};
    const std::string error = DecodeError(file.bytes, options);
    EXPECT_NE(error.find("limit"), std::string::npos) << name << ": " << error;
    EXPECT_EQ(admitted, 0) << name;
  }
}

// The container says 37 × 29, the coded picture 65528 × 65528: the decoder would allocate by the latter.
TEST_F(HeifFiles, CodedPicturesAreHeldToTheLimitToo) {
  std::vector<uint8_t> unit = {0x42, 0x01, 0x01, 0x03, 0x70, 0, 0, 0x90};  // and the rest of a main still profile
  unit.resize(15, 0);
  // id 0, chroma format 1, width and height: 15 zeros and 16 bits of 65529 each
  const std::string bits =
      std::string("1010") + "0000000000000001111111111111001" + "0000000000000001111111111111001" + "1";
  for (size_t i = 0; i < bits.size(); ++i) {
    if (i % 8 == 0) unit.push_back(0);
    unit.back() = static_cast<uint8_t>(unit.back() | (bits[i] - '0') << (7 - i % 8));
  }
  int changed = 0;
  for (const auto& [name, file] : WithPrefix(golden_, "file/")) {
    std::vector<std::byte> bytes(file.bytes.begin(), file.bytes.end());
    const auto header = std::as_bytes(std::span("\x42\x01\x01", 3));
    const auto found = std::search(bytes.begin(), bytes.end(), header.begin(), header.end());
    if (found == bytes.end()) continue;
    std::ranges::copy(std::as_bytes(std::span(unit)), found);
    const std::string error = DecodeError(bytes);
    EXPECT_NE(error.find("65528 x 65528 pixels are more than the limit"), std::string::npos) << name << ": " << error;
    ++changed;
  }
  EXPECT_EQ(changed, 5);
}

TEST_F(HeifFiles, DamageIsAnError) {
  for (const auto& [name, file] : WithPrefix(golden_, "file/")) {
    for (size_t length = 1; length < file.bytes.size(); length += length < 64 ? 7 : file.bytes.size() / 16) {
      const std::string error = DecodeError(file.bytes.first(length));
      EXPECT_TRUE(error.starts_with("the/file: ")) << name << " cut to " << length << ": " << error;
    }
    // Whatever a damaged byte does, it ends, and an error names the file.
    std::vector<std::byte> damaged(file.bytes.begin(), file.bytes.end());
    for (size_t at = 8; at < damaged.size(); at += damaged.size() / 24) {
      const std::byte kept = std::exchange(damaged[at], damaged[at] ^ std::byte{0x55});
      const std::string error = DecodeError(damaged, {.max_pixels = 1 << 16});
      EXPECT_TRUE(error.empty() || error.starts_with("the/file: ")) << name << " at " << at << ": " << error;
      damaged[at] = kept;
    }
  }
}

}  // namespace
}  // namespace qkv::image
