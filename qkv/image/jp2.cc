// JPEG 2000 files as images: grey, grey and alpha, RGB, RGBA and YCbCr, with Pillow's conversions to 8 bits.
#include <algorithm>
#include <array>

#include "qkv/core/work.h"
#include "qkv/image/codec.h"
#include "qkv/image/jpeg2000.h"
#include "qkv/image/jpeg2000_header.h"

namespace qkv::image {
namespace {

/// Pillow's conversion from YCbCr: products in 6 bits of fraction, of which negative ones are rounded up.
struct PillowYcc {
  std::array<int, 256> red, blue, green_cb, green_cr;

  PillowYcc() {
    const auto fixed = [](double factor, int x) { return static_cast<int>(factor * 64 * x + 0.5); };
    for (int i = 0; i < 256; ++i) {
      red[i] = fixed(1.40200, i - 128);
      green_cb[i] = fixed(-0.34414, i - 128);
      green_cr[i] = fixed(-0.71414, i - 128);
      blue[i] = fixed(1.77200, i - 128);
    }
  }

  void ToRgb(uint8_t* pixel) const {
    const int y = pixel[0], cb = pixel[1], cr = pixel[2];
    const auto clamped = [](int value) { return static_cast<uint8_t>(std::clamp(value, 0, 255)); };
    pixel[0] = clamped(y + (red[cr] >> 6));
    pixel[1] = clamped(y + ((green_cb[cb] + green_cr[cr]) >> 6));
    pixel[2] = clamped(y + (blue[cb] >> 6));
  }
};

/// A sample as Pillow's 8 bits: deeper ones are rounded, shallower ones shifted up.
uint8_t ToByte(int32_t sample, int bits) {
  if (bits <= 8) return static_cast<uint8_t>(sample << (8 - bits));
  return static_cast<uint8_t>(std::min((sample + (1 << (bits - 9))) >> (bits - 8), 255));
}

/// Deep grey, and all deep images where there is a window: levels as stored through the window, or Pillow's grey of 16
/// bits, which is cut at 255.
void NarrowSamples(const Jpeg2000& jpeg, int32_t offset, const DecodeOptions& options, uint8_t* out) {
  const auto channels = static_cast<int>(jpeg.samples.dim(2));
  const int32_t* in = jpeg.samples.data();
  const double scale = options.window ? 1 : 1 << (16 - jpeg.bits);
  const int32_t added = options.window ? 0 : offset;
  std::array<double, 4> levels;
  for (int64_t i = jpeg.samples.size() / channels; i > 0; --i, in += channels, out += channels) {
    for (int c = 0; c < channels; ++c) levels[c] = scale * (in[c] + added);
    Narrow(options, levels.data(), 1, channels, out);
    if (channels % 2 == 0) out[channels - 1] = ToByte(in[channels - 1] + offset, jpeg.bits);
  }
}

}  // namespace

Decoded DecodeJp2(const Source& source) {
  const Jpeg2000Header header = ReadJpeg2000Header(source.bytes, source.options.max_pixels, source.where);
  const int most = std::max(header.components, header.channels);
  Admit(source, header.width, header.height, most,
        header.library_bytes + static_cast<int64_t>(sizeof(int32_t)) * header.width * header.height * most);
  const Jpeg2000 jpeg = DecodeJpeg2000(source.bytes, source.options.max_pixels, source.where);
  Decoded decoded;
  decoded.image = NewImage(source, header.width, header.height, static_cast<int>(jpeg.samples.dim(2)));
  decoded.windowed = jpeg.bits > 8;
  const int32_t offset = jpeg.is_signed ? 1 << (jpeg.bits - 1) : 0;
  uint8_t* const out = decoded.image.pixels.data();
  if (jpeg.bits > 8 && (jpeg.samples.dim(2) == 1 || source.options.window)) {
    NarrowSamples(jpeg, offset, source.options, out);
  } else {
    ForEachRun(jpeg.samples.size(), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) out[i] = ToByte(jpeg.samples[i] + offset, jpeg.bits);
    });
  }
  if (jpeg.is_ycc) {
    static const PillowYcc kTable;
    ForEachRun(header.width * header.height, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) kTable.ToRgb(out + 3 * i);
    });
  }
  return decoded;
}

}  // namespace qkv::image
