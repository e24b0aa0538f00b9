// Shared declarations of the image format readers. Internal to qkv/image.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string_view>
#include <type_traits>

#include "qkv/image/image.h"
#include "qkv/image/runs.h"
#include "qkv/image/workspace.h"

namespace qkv::image {

/// The input of a reader.
struct Source {
  std::span<const std::byte> bytes;
  const DecodeOptions& options;
  std::string_view where;
  Workspace& workspace;
  Tensor<uint8_t>& spare;  // memory for the first new image
  int64_t& admitted;       // bytes that options.admit was asked for

  const uint8_t* data() const { return reinterpret_cast<const uint8_t*>(bytes.data()); }
  size_t size() const { return bytes.size(); }
};

/// The result of a reader.
struct Decoded {
  Image image;
  int orientation = 1;          // EXIF's, 1…8
  bool always_upright = false;  // apply the orientation even if the options say not to: Pillow does so on loading
  bool windowed = false;        // options.window was applied to the file's own samples
};

Decoded DecodeJpeg(const Source& source);
Decoded DecodePng(const Source& source);
Decoded DecodeWebp(const Source& source);
Decoded DecodeGif(const Source& source);
Decoded DecodeBmp(const Source& source);
Decoded DecodeTiff(const Source& source);
Decoded DecodePnm(const Source& source);
Decoded DecodeHeif(const Source& source);
Decoded DecodeDicom(const Source& source);
Decoded DecodeJp2(const Source& source);

/// Throws Error if a side is < 1 or there are more than options.max_pixels pixels.
void CheckSize(const Source& source, int64_t width, int64_t height);
/// Every reader calls this between reading the header and allocating, in its library too, anything that grows with what
/// the header says. Throws Error as CheckSize, and if decoding takes more than MemoryLimit(); else asks options.admit
/// for the bytes of decoding: those of the image and `beside`, the most that the reader and its library hold beside it.
/// The file's own bytes, up to twice as many for metadata, and kFixedBytes are not counted.
void Admit(const Source& source, int64_t width, int64_t height, int channels, int64_t beside);
/// Bytes of a library's tables and buffers, whatever the header says.
inline constexpr int64_t kFixedBytes = int64_t{1} << 20;
/// A zeroed image, after Admit.
Image NewImage(const Source& source, int64_t width, int64_t height, int channels);

/// Spend for the callbacks of C libraries, through which nothing may be thrown.
class Interrupt {
 public:
  /// False if the library should end with an error of its own; Rethrow has the reason.
  bool Spend(int64_t steps) noexcept;
  /// Throws the exception that Spend caught, if any.
  void Rethrow() const {
    if (thrown_) std::rethrow_exception(thrown_);
  }

 private:
  std::exception_ptr thrown_;
};

/// The orientation (1…8) in an XMP packet; 1 if there is none.
int XmpOrientation(std::span<const std::byte> xmp);
/// The orientation by Pillow's rule: EXIF (a TIFF header and its first directory) takes precedence over XMP. Either may
/// be empty.
int Orientation(std::span<const std::byte> exif, std::span<const std::byte> xmp);

/// Pillow's convert("RGB") of one CMYK pixel.
void CmykToRgb(const uint8_t* cmyk, uint8_t* rgb);

/// Maps a grey level through options.window to 0…255.
inline uint8_t Windowed(double level, const std::pair<double, double>& window) {
  const double x = (level - window.first) / (window.second - window.first);
  return static_cast<uint8_t>(std::lround(255 * std::clamp(std::isnan(x) ? 0.0 : x, 0.0, 1.0)));
}

/// Converts samples of more than 8 bits to 8: through the window if there is one (except the alpha of 2 or 4 channels),
/// else as Pillow does: grey saturates at 0 and 255, other images keep the high byte.
template <typename T>
void Narrow(const DecodeOptions& options, const T* in, int64_t pixels, int channels, uint8_t* out) {
  ForEachRun(pixels, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin * channels; i < end * channels; ++i) {
      const bool alpha = channels % 2 == 0 && i % channels == channels - 1;
      if (options.window && !alpha) {
        out[i] = Windowed(static_cast<double>(in[i]), *options.window);
      } else if (channels == 1) {
        // max before min: a NaN becomes 0
        out[i] = static_cast<uint8_t>(std::min<double>(255, std::max<double>(0, static_cast<double>(in[i]))));
      } else if constexpr (std::is_same_v<T, uint16_t>) {
        out[i] = static_cast<uint8_t>(in[i] >> 8);
      }
    }
  });
}

}  // namespace qkv::image
