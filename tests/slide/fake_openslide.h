// The slide of fake_openslide.cc.
#pragma once

#include <cstdint>

namespace qkv::slide::fake {

inline constexpr int64_t kWidth = 20000, kHeight = 9000;
inline constexpr double kDownsamples[] = {1, 4, 16.5};
/// Regions over this column of level 0 misbehave.
inline constexpr int64_t kBadX = 10000;

/// Premultiplied ARGB. Columns up to 100 were never scanned, up to 200 only in part.
inline uint32_t Pixel(int64_t x, int64_t y, int level) {
  if (x < 100) return 0;
  const uint32_t alpha = x < 200 ? 128 : 255;
  const auto mixed = static_cast<uint32_t>(x * 2654435761u ^ y * 40503u ^ level * 977u);
  const auto channel = [&](int shift) { return (mixed >> shift & 255) * alpha / 255; };
  return alpha << 24 | channel(3) << 16 | channel(9) << 8 | channel(17);
}

/// What "read=probe" finds refused, in the first pixel.
enum Refusal : uint32_t {
  kNetwork = 1,
  kFork = 2,
  kWrite = 4,
  kExecute = 8,
  kSignal = 16,
  kCode = 32,
  kMakeCode = 64,
  kAsync = 128,
  kEnvironment = 256,
  kDescriptors = 512,
  kRead = 1024,
};

}  // namespace qkv::slide::fake
