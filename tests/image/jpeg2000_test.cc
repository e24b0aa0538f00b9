// JPEG 2000 against imagecodecs and Pillow (generate_jpeg2000.py), and damaged files.
#include "qkv/image/jpeg2000.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "qkv/core/memory.h"
#include "qkv/image/jpeg2000_header.h"
#include "tests/image/golden.h"
#include "tests/support/errors.h"

namespace qkv::image {
namespace {

class Jpeg2000Files : public testing::Test {
 protected:
  static std::string DecodeError2000(std::span<const std::byte> bytes, int64_t max_pixels = 1 << 20) {
    return ErrorMessage([&] { DecodeJpeg2000(bytes, max_pixels, "the/file"); });
  }

  std::vector<std::byte> Bytes2000(const std::string& name) const {
    const io::StoredTensor* file = golden_.Find("file/" + name);
    EXPECT_NE(file, nullptr) << name;
    return {file->bytes.begin(), file->bytes.end()};
  }

  const io::SafeTensors golden_ = io::SafeTensors::Open(GoldenFolder() / "jpeg2000.safetensors");
};

TEST_F(Jpeg2000Files, SamplesEqualTheOriginals) {
  int files = 0;
  for (const auto& [name, file] : WithPrefix(golden_, "file/")) {
    const Jpeg2000 got = DecodeJpeg2000(file.bytes, 1 << 20, name);
    const io::StoredTensor* expected = golden_.Find("samples/" + name);
    ASSERT_NE(expected, nullptr) << name;
    ASSERT_EQ(got.samples.shape(), expected->shape) << name;
    const std::vector<uint16_t> low(got.samples.span().begin(), got.samples.span().end());
    EXPECT_EQ(std::memcmp(low.data(), expected->bytes.data(), expected->bytes.size()), 0) << name;
    const bool deep = name.find("_16") != name.npos;
    EXPECT_EQ(got.bits, deep ? 16 : name.find("_12") != name.npos ? 12 : name.find("_4") != name.npos ? 4 : 8) << name;
    EXPECT_EQ(got.is_signed, name.find("signed") != name.npos) << name;
    EXPECT_EQ(got.is_ycc, name == "ycc.jp2") << name;
    ++files;
  }
  EXPECT_EQ(files, 16);
}

TEST_F(Jpeg2000Files, ImagesEqualPillows) {
  int files = 0;
  for (const auto& [name, expected] : WithPrefix(golden_, "rgb/")) {
    const Image image = Decode(Bytes2000(name), {}, name);
    ExpectSame(ToChannels(image, 3), ToImage(expected), name);
    if (const io::StoredTensor* alpha = golden_.Find("alpha/" + name)) {
      ASSERT_EQ(image.channels() % 2, 0) << name;
      for (int64_t i = 0; i < image.height() * image.width(); ++i)
        ASSERT_EQ(image.pixels[(i + 1) * image.channels() - 1], Bytes(*alpha)[i]) << name;
    }
    ++files;
  }
  EXPECT_EQ(files, 15);
  EXPECT_TRUE(HasImageEnding("a.JP2") && HasImageEnding("a.j2k") && HasImageEnding("a.jpx"));
}

TEST_F(Jpeg2000Files, WindowsAreForLevelsAsStored) {
  for (const char* name : {"grey_16.j2k", "grey_16_signed.jp2", "rgb_16.jp2"}) {
    const std::vector<std::byte> bytes = Bytes2000(name);
    const Jpeg2000 stored = DecodeJpeg2000(bytes, 1 << 20, name);
    const Image image = Decode(bytes, {.window = std::pair(-2000.0, 30000.0)}, name);
    for (int64_t i = 0; i < image.pixels.size(); ++i) {
      const double x = std::clamp((stored.samples[i] + 2000) / 32000.0, 0.0, 1.0);
      ASSERT_EQ(image.pixels[i], static_cast<uint8_t>(std::lround(255 * x))) << name;
    }
  }
}

TEST_F(Jpeg2000Files, CutFilesAreErrors) {
  for (const auto& [name, file] : WithPrefix(golden_, "file/")) {
    // The mark of the end is two bytes, which may be missing.
    const size_t step = std::max<size_t>(1, file.bytes.size() / 100);
    for (size_t length = 0; length + 2 < file.bytes.size(); length += step) {
      const std::string error = DecodeError2000(file.bytes.first(length));
      EXPECT_TRUE(error.starts_with("the/file: JPEG 2000: ")) << name << " cut to " << length << ": " << error;
    }
  }
}

TEST_F(Jpeg2000Files, ChangedBytesAreErrorsOrPictures) {
  for (const char* name : {"rgb.j2k", "rgb_tiles.jp2", "grey_alpha.jp2", "subsampled.j2k"}) {
    std::vector<std::byte> bytes = Bytes2000(name);
    for (size_t at = 0; at < bytes.size(); at += at < 200 ? 1 : bytes.size() / 100 + 1) {
      for (const auto flip : {std::byte{1}, std::byte{0xFF}}) {
        const std::byte kept = std::exchange(bytes[at], bytes[at] ^ flip);
        const std::string error = DecodeError2000(bytes);
        EXPECT_TRUE(error.empty() || error.starts_with("the/file: ")) << name << " at " << at << ": " << error;
        bytes[at] = kept;
      }
    }
  }
}

/// Writes a big-endian number of `count` bytes behind the marker.
void PutBehind(std::vector<std::byte>& bytes, uint8_t marker, size_t offset, uint32_t value, int count) {
  const std::byte wanted[] = {std::byte{0xFF}, std::byte{marker}};
  const auto found = std::search(bytes.begin(), bytes.end(), std::begin(wanted), std::end(wanted));
  ASSERT_NE(found, bytes.end());
  for (int i = 0; i < count; ++i)
    found[static_cast<std::ptrdiff_t>(2 + offset) + i] = static_cast<std::byte>(value >> 8 * (count - 1 - i));
}

TEST_F(Jpeg2000Files, WhatAHeaderDeclaresIsBoundedBeforeItIsAllocated) {
  constexpr uint8_t kSize = 0x51, kCoding = 0x52;
  const std::vector<std::byte> file = Bytes2000("rgb.j2k");
  const auto changed = [&](uint8_t marker, std::initializer_list<std::pair<size_t, uint32_t>> values, int count) {
    std::vector<std::byte> bytes = file;
    for (const auto& [offset, value] : values) PutBehind(bytes, marker, offset, value, count);
    return DecodeError2000(bytes);
  };
  const auto expect = [](const std::string& error, const char* part) {
    EXPECT_NE(error.find(part), std::string::npos) << error;
  };
  expect(DecodeError2000(file, 36 * 28 - 1), "36 x 28 pixels are more than the limit of 1007");
  expect(changed(kSize, {{4, 1u << 30}, {8, 1u << 30}}, 4), "more than the limit");
  expect(changed(kSize, {{20, 1}, {24, 1}}, 4), "36 x 28 tiles in");
  expect(changed(kSize, {{36, 9000}}, 2), "9000 components");
  expect(changed(kSize, {{38, 37}}, 1), "38 bits");
  expect(changed(kCoding, {{4, 0xFFFF}}, 2), "");  // layers: the data end, or their marks are too many
  // Blocks and precincts that are far smaller than samples: more memory than the picture.
  const int64_t plain = ReadJpeg2000Header(file, 1 << 20, "").library_bytes;
  std::vector<std::byte> many = file;
  PutBehind(many, kCoding, 8, 0, 1);
  PutBehind(many, kCoding, 9, 0, 1);
  EXPECT_GT(ReadJpeg2000Header(many, 1 << 20, "").library_bytes, 2 * plain);
  const int64_t kept = MemoryLimit();
  SetMemoryLimit(plain);
  EXPECT_NE(DecodeError2000(file).find("JPEG 2000"), std::string::npos);
  SetMemoryLimit(kept);
}

}  // namespace
}  // namespace qkv::image
