#include "qkv/image/dicom_mark.h"

#include <algorithm>
#include <cstdint>
#include <string_view>

namespace qkv::image {
namespace {

constexpr size_t kPreambleBytes = 128;

// Two letters of a value representation, as they follow the first element's tag.
bool IsRepresentation(const uint8_t* p) { return p[0] >= 'A' && p[0] <= 'Z' && p[1] >= 'A' && p[1] <= 'Z'; }

}  // namespace

bool IsDicom(std::span<const std::byte> bytes) {
  const auto* const p = reinterpret_cast<const uint8_t*>(bytes.data());
  constexpr std::string_view kMark = "DICM";
  if (bytes.size() >= kPreambleBytes + kMark.size() &&
      std::equal(kMark.begin(), kMark.end(), reinterpret_cast<const char*>(p) + kPreambleBytes)) {
    return true;
  }
  // Without a preamble: an element of group 2 or 8 as the first, of a number that occurs there and a length that is
  // plausible for it.
  if (bytes.size() < kPreambleBytes) return false;
  const bool little = (p[0] == 2 || p[0] == 8) && p[1] == 0 && p[3] == 0;
  const bool big = p[0] == 0 && p[1] == 8 && p[2] == 0;
  if ((little || big) && IsRepresentation(p + 4)) return true;
  constexpr uint8_t kLastNumber = 0x18, kMaxLength = 64;
  return little && p[0] == 8 && p[2] <= kLastNumber && p[4] <= kMaxLength && p[5] == 0 && p[6] == 0 && p[7] == 0;
}

}  // namespace qkv::image
