#include "qkv/image/orient.h"

#include <cstring>
#include <string_view>

#include "qkv/core/work.h"
#include "qkv/image/codec.h"

namespace qkv::image {
namespace {

constexpr uint16_t kOrientationTag = 0x0112;

/// Reads numbers from a TIFF structure in its byte order; 0 if out of bounds.
class TiffBytes {
 public:
  explicit TiffBytes(std::span<const std::byte> bytes)
      : bytes_(bytes), little_(bytes.size() >= 2 && bytes[0] == std::byte{'I'}) {}

  uint32_t Number(size_t offset, int length) const {
    if (offset > bytes_.size() || bytes_.size() - offset < static_cast<size_t>(length)) return 0;
    uint32_t value = 0;
    for (int i = 0; i < length; ++i)
      value = value << 8 | std::to_integer<uint32_t>(bytes_[offset + (little_ ? length - 1 - i : i)]);
    return value;
  }

 private:
  std::span<const std::byte> bytes_;
  bool little_;
};

int Valid(uint32_t orientation) { return orientation >= 1 && orientation <= 8 ? static_cast<int>(orientation) : 1; }

/// The orientation tag's value, 0 if absent.
uint32_t FindInExif(std::span<const std::byte> exif) {
  using namespace std::string_view_literals;
  std::string_view start(reinterpret_cast<const char*>(exif.data()), exif.size());
  // JPEG's prefix, which some writers of other formats keep.
  if (start.starts_with("Exif\0\0"sv)) exif = exif.subspan(6), start.remove_prefix(6);
  start = start.substr(0, 4);
  if (start != "II*\0"sv && start != "MM\0*"sv) return 0;
  const TiffBytes tiff(exif);
  const size_t directory = tiff.Number(4, 4);
  const uint32_t entries = tiff.Number(directory, 2);
  for (uint32_t i = 0; i < entries; ++i) {
    const size_t entry = directory + 2 + size_t{12} * i;
    if (tiff.Number(entry, 2) != kOrientationTag) continue;
    switch (tiff.Number(entry + 2, 2)) {
      case 1:  // BYTE
        return tiff.Number(entry + 8, 1);
      case 3:  // SHORT
        return tiff.Number(entry + 8, 2);
      case 4:  // LONG
        return tiff.Number(entry + 8, 4);
      default:
        return 0;
    }
  }
  return 0;
}

}  // namespace

int XmpOrientation(std::span<const std::byte> xmp) {
  const std::string_view text(reinterpret_cast<const char*>(xmp.data()), xmp.size());
  for (const std::string_view key : {"tiff:Orientation=\"", "tiff:Orientation>"}) {
    for (size_t at = text.find(key); at != text.npos; at = text.find(key, at + 1)) {
      const size_t digit = at + key.size();
      if (digit < text.size() && text[digit] >= '0' && text[digit] <= '9')
        return Valid(static_cast<uint32_t>(text[digit] - '0'));
    }
  }
  return 1;
}

int Orientation(std::span<const std::byte> exif, std::span<const std::byte> xmp) {
  const uint32_t orientation = FindInExif(exif);
  return orientation != 0 ? Valid(orientation) : XmpOrientation(xmp);
}

void ApplyOrientation(Image& image, int orientation, Tensor<uint8_t>& spare) {
  if (orientation <= 1 || orientation > 8) return;
  const int64_t height = image.height(), width = image.width(), channels = image.channels();
  // For 5…8, rows of the result are columns of the file.
  const bool swap = orientation >= 5;
  const bool flip_x = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool flip_y = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  const int64_t out_height = swap ? width : height, out_width = swap ? height : width;
  spare.Reuse({out_height, out_width, channels});
  // flip_x and flip_y reverse the order of the file's columns and rows.
  const int64_t step_x = (flip_x ? -1 : 1) * channels, step_y = (flip_y ? -1 : 1) * width * channels;
  const uint8_t* first =
      image.pixels.data() + (flip_x ? (width - 1) * channels : 0) + (flip_y ? (height - 1) * width * channels : 0);
  uint8_t* out = spare.data();
  for (int64_t y = 0; y < out_height; ++y) {
    Spend(out_width);
    const uint8_t* in = first + y * (swap ? step_x : step_y);
    for (int64_t x = 0; x < out_width; ++x, in += swap ? step_y : step_x, out += channels)
      std::memcpy(out, in, static_cast<size_t>(channels));
  }
  std::swap(image.pixels, spare);
}

}  // namespace qkv::image
