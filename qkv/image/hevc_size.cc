#include "qkv/image/hevc_size.h"

#include <algorithm>
#include <string_view>

#include "qkv/core/work.h"

namespace qkv::image {
namespace {

// A sequence parameter set: its first two bytes (type 33, layer 0), and plausible lengths.
constexpr std::string_view kSpsHeader = "\x42\x01";
constexpr size_t kLeastSps = 16, kMostSps = 4096;

/// Bits of a NAL unit, without the bytes 3 that follow two zeros. Behind its end they are 0.
class Bits {
 public:
  explicit Bits(std::string_view unit) : unit_(unit) {}

  uint32_t Take(int count) {
    uint32_t value = 0;
    for (int i = 0; i < count; ++i) value = value << 1 | Next();
    return value;
  }
  void Skip(int count) {
    for (int i = 0; i < count; ++i) Next();
  }
  /// Exp-Golomb code, ue(v).
  int64_t Number() {
    int zeros = 0;
    while (zeros < 32 && at_ < unit_.size() && Next() == 0) ++zeros;
    return (int64_t{1} << zeros) - 1 + Take(zeros);
  }

 private:
  uint32_t Next() {
    if (at_ >= unit_.size()) return 0;
    const uint32_t bit = static_cast<uint8_t>(unit_[at_]) >> (7 - bit_) & 1;
    if (++bit_ < 8) return bit;
    bit_ = 0;
    if (++at_ + 1 < unit_.size() && unit_.substr(at_ - 2, 3) == std::string_view("\0\0\3", 3)) ++at_;
    return bit;
  }

  std::string_view unit_;
  size_t at_ = 2;  // behind the header
  int bit_ = 0;
};

int64_t PixelsOf(std::string_view unit, const Source& source) {
  Bits bits(unit);
  bits.Skip(4);
  const uint32_t layers = bits.Take(3);  // besides the first
  bits.Skip(1);
  constexpr int kProfileBits = 88, kLevelBits = 8;
  bits.Skip(kProfileBits + kLevelBits);
  uint32_t present = 0;
  for (uint32_t i = 0; layers > 0 && i < 8; ++i) present = present << 2 | bits.Take(2);
  for (uint32_t i = 0; i < layers; ++i) {
    const uint32_t flags = present >> (14 - 2 * i) & 3;
    bits.Skip((flags & 2 ? kProfileBits : 0) + (flags & 1 ? kLevelBits : 0));
  }
  bits.Number();                         // id
  if (bits.Number() == 3) bits.Take(1);  // chroma format, separate planes
  const int64_t width = bits.Number(), height = bits.Number();
  if (width == 0 || height == 0) return 0;
  CheckSize(source, width, height);
  return width * height;
}

uint32_t BigEndian(std::string_view bytes) {
  uint32_t value = 0;
  for (const char byte : bytes) value = value << 8 | static_cast<uint8_t>(byte);
  return value;
}

}  // namespace

int64_t HevcPixels(const Source& source) {
  const std::string_view file(reinterpret_cast<const char*>(source.data()), source.size());
  if (file.find("hvcC") == file.npos) return 0;
  int64_t most = 0;
  // Units have their length before them, in four bytes among the pictures' and two in a box hvcC. Four bytes that only
  // look like these are found in one file of thousands, and such a set is as small as it is large.
  for (size_t at = file.find(kSpsHeader); at != file.npos; at = file.find(kSpsHeader, at + 1)) {
    if (at < 4) continue;
    const uint32_t length = BigEndian(file.substr(at - 4, 4));
    if (length >= kLeastSps && length <= kMostSps && length <= file.size() - at)
      most = std::max(most, PixelsOf(file.substr(at, length), source));
  }
  for (size_t box = file.find("hvcC"); box != file.npos; box = file.find("hvcC", box + 1)) {
    constexpr size_t kArrays = 4 + 22;
    if (file.size() - box <= kArrays) break;
    size_t at = box + kArrays + 1;
    for (int arrays = static_cast<uint8_t>(file[box + kArrays]); arrays > 0 && at + 3 <= file.size(); --arrays) {
      uint32_t units = BigEndian(file.substr(at + 1, 2));
      for (at += 3; units > 0 && at + 2 <= file.size(); --units) {
        const size_t length = std::min<size_t>(BigEndian(file.substr(at, 2)), file.size() - at - 2);
        Spend(static_cast<int64_t>(length) + 1);
        const std::string_view unit = file.substr(at + 2, length);
        if (length >= kLeastSps && (static_cast<uint8_t>(unit[0]) >> 1 & 63) == 33)
          most = std::max(most, PixelsOf(unit, source));
        at += 2 + length;
      }
    }
  }
  return most;
}

}  // namespace qkv::image
