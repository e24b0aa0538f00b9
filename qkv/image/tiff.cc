// TIFF through libtiff: the first image; strips or tiles; any of its compressions; 1 to 16 bits, 32-bit integers and
// floats; grey, palette, RGB, CMYK and YCbCr, with or without alpha. Conversions follow Pillow.
#include <tiffio.h>

#include <array>
#include <bit>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "qkv/core/work.h"
#include "qkv/image/codec.h"
#include "qkv/image/tiff_slide.h"
#include "qkv/image/tiff_warning.h"

namespace qkv::image {
namespace {

constexpr int kMaxSamples = 6;  // per pixel; Pillow's limit
// libtiff's buffers for a directory that is read bit by bit.
constexpr int64_t kTableBytes = int64_t{1} << 18;
// Memory of codecs for a strip or tile, in multiples of its bytes: WebP's words and libtiff's copy take the most.
constexpr int64_t kCodecBuffers = 4;
// Window of LZMA and ZSTD as libtiff writes them. A file may declare more, which takes addresses, but memory only as
// far as a strip or tile goes.
constexpr int64_t kWindowBytes = int64_t{10} << 20;
constexpr int64_t kTiffStepsPerByte = 4, kTiffStepsPerPixel = 2;

/// The file in memory, and libtiff's messages.
struct Input {
  const uint8_t* data;
  size_t size;
  size_t position = 0;
  std::string message;  // the first error
};

tmsize_t ReadBytes(thandle_t handle, void* out, tmsize_t length) {
  auto* input = static_cast<Input*>(handle);
  const size_t count = std::min(static_cast<size_t>(length), input->size - std::min(input->position, input->size));
  if (count > 0) std::memcpy(out, input->data + input->position, count);
  input->position += count;
  return static_cast<tmsize_t>(count);
}

toff_t Seek(thandle_t handle, toff_t offset, int whence) {
  auto* input = static_cast<Input*>(handle);
  const size_t base = whence == SEEK_CUR ? input->position : whence == SEEK_END ? input->size : 0;
  input->position = base + offset;
  return input->position;
}

int OnError(TIFF*, void* user, const char*, const char* format, va_list arguments) {
  auto* input = static_cast<Input*>(user);
  if (!input->message.empty()) return 1;
  char text[256];
  vsnprintf(text, sizeof text, format, arguments);
  input->message = text;
  return 1;
}

int OnWarning(TIFF* tiff, void* user, const char* module, const char* format, va_list arguments) {
  char text[256];
  va_list copy;
  va_copy(copy, arguments);
  vsnprintf(text, sizeof text, format, copy);
  va_end(copy);
  return IsFatalTiffWarning(text) ? OnError(tiff, user, module, format, arguments) : 1;
}

using TiffPointer = std::unique_ptr<TIFF, void (*)(TIFF*)>;

/// most: bytes of each of libtiff's buffers.
TiffPointer Open(Input& input, const Source& source, int64_t most) {
  const std::unique_ptr<TIFFOpenOptions, void (*)(TIFFOpenOptions*)> options(TIFFOpenOptionsAlloc(),
                                                                             TIFFOpenOptionsFree);
  Require(options != nullptr, "{}: TIFF: no memory", source.where);
  TIFFOpenOptionsSetErrorHandlerExtR(options.get(), OnError, &input);
  TIFFOpenOptionsSetWarningHandlerExtR(options.get(), OnWarning, &input);
  TIFFOpenOptionsSetMaxSingleMemAlloc(options.get(), static_cast<tmsize_t>(most));
  // "m": read through the callbacks, without mapping.
  TIFF* tiff = TIFFClientOpenExt(
      "", "rm", &input, ReadBytes, [](thandle_t, void*, tmsize_t) -> tmsize_t { return -1; }, Seek,
      [](thandle_t) { return 0; }, [](thandle_t handle) -> toff_t { return static_cast<Input*>(handle)->size; },
      [](thandle_t, void**, toff_t*) { return 0; }, [](thandle_t, void*, toff_t) {}, options.get());
  return {tiff, TIFFClose};
}

enum class Alpha { kNone, kStraight, kPremultiplied };

struct Layout {
  uint32_t width = 0, height = 0;
  uint16_t bits = 1, samples = 1, format = SAMPLEFORMAT_UINT, photometric = PHOTOMETRIC_MINISWHITE;
  uint16_t compression = COMPRESSION_NONE;
  uint32_t piece_width = 0, piece_height = 0;  // of strips or tiles
  bool planar = false, tiled = false;
  int colours = 1;  // samples except alpha and other extras
  Alpha alpha = Alpha::kNone;
  std::array<const uint16_t*, 3> palette{};  // 2^bits entries each, owned by libtiff

  int channels() const {
    const bool grey = photometric == PHOTOMETRIC_MINISWHITE || photometric == PHOTOMETRIC_MINISBLACK;
    return (grey ? 1 : 3) + (alpha != Alpha::kNone);
  }
  int64_t planes() const { return planar ? samples : 1; }
  int64_t plane_samples() const { return planar ? 1 : samples; }
  int64_t row_bytes(int64_t pixels) const { return (pixels * plane_samples() * bits + 7) / 8; }
};

class TiffReader {
 public:
  explicit TiffReader(const Source& source) : source_(source), input_{source.data(), source.size()} {
    // The directory's tables are in the file, with 2 to 16 bytes an entry, and take 8: a small file that declares a
    // table of millions of strips is rejected.
    const int64_t table_bytes = 4 * static_cast<int64_t>(source.size()) + kTableBytes;
    tiff_ = Open(input_, source, table_bytes);
    Check(tiff_ != nullptr);
    ReadLayout();
    AdmitPieces();
    if (!kind_.empty() && source_.options.remark) {
      source_.options.remark(fmt::format(
          "{} of {} x {} pixels, here made one picture of the model's input size; qkv slide embed takes its tiles",
          kind_, layout_.width, layout_.height));
    }
    // Opened again, since the limit cannot be changed: with room for the codecs' memory of a strip or tile.
    tiff_.reset();
    input_.position = 0;
    tiff_ = Open(input_, source, table_bytes + kCodecBuffers * PieceBytes());
    Check(tiff_ != nullptr);
    if (layout_.photometric == PHOTOMETRIC_PALETTE) ReadPalette();
  }

  Decoded Read() {
    Decoded decoded;
    decoded.always_upright = true;
    uint16_t orientation = 1;
    TIFFGetField(tiff_.get(), TIFFTAG_ORIENTATION, &orientation);
    decoded.orientation = orientation;
    if (layout_.photometric == PHOTOMETRIC_YCBCR) {
      decoded.image = ReadYcbcr();
    } else {
      decoded.image = NewImage(source_, layout_.width, layout_.height, layout_.channels());
      ReadBands(decoded.image);
      decoded.windowed = layout_.bits > 8;
    }
    return decoded;
  }

 private:
  void Check(bool ok) const {
    Require(ok && input_.message.empty(), "{}: TIFF: {}", source_.where,
            input_.message.empty() ? "damaged" : input_.message);
  }

  void ReadLayout() {
    TIFF* tiff = tiff_.get();
    Layout& l = layout_;
    Check(TIFFGetField(tiff, TIFFTAG_IMAGEWIDTH, &l.width) && TIFFGetField(tiff, TIFFTAG_IMAGELENGTH, &l.height));
    kind_ = KindInLevels(tiff);
    input_.message.clear();  // of the next level
    Require(kind_.empty() || static_cast<double>(l.width) * l.height <= static_cast<double>(source_.options.max_pixels),
            "{}: {} of {} x {} pixels, more than the limit of {} for one picture (--max-pixels); qkv slide embed takes "
            "its tiles",
            source_.where, kind_, l.width, l.height, source_.options.max_pixels);
    CheckSize(source_, l.width, l.height);
    TIFFGetFieldDefaulted(tiff, TIFFTAG_BITSPERSAMPLE, &l.bits);
    TIFFGetFieldDefaulted(tiff, TIFFTAG_SAMPLESPERPIXEL, &l.samples);
    TIFFGetFieldDefaulted(tiff, TIFFTAG_SAMPLEFORMAT, &l.format);
    TIFFGetFieldDefaulted(tiff, TIFFTAG_COMPRESSION, &l.compression);
    TIFFGetField(tiff, TIFFTAG_PHOTOMETRIC, &l.photometric);
    uint16_t planar = PLANARCONFIG_CONTIG;
    TIFFGetFieldDefaulted(tiff, TIFFTAG_PLANARCONFIG, &planar);
    l.planar = planar == PLANARCONFIG_SEPARATE && l.samples > 1;
    l.tiled = TIFFIsTiled(tiff) != 0;
    if (l.photometric == PHOTOMETRIC_YCBCR && l.samples == 1) l.photometric = PHOTOMETRIC_MINISBLACK;
    CheckKind();
    ReadAlpha();
    if (l.photometric == PHOTOMETRIC_PALETTE) ReadPalette();
    l.piece_width = l.width;
    if (l.tiled) {
      Check(TIFFGetField(tiff, TIFFTAG_TILEWIDTH, &l.piece_width) &&
            TIFFGetField(tiff, TIFFTAG_TILELENGTH, &l.piece_height));
      CheckSize(source_, l.piece_width, l.piece_height);
    } else {
      TIFFGetFieldDefaulted(tiff, TIFFTAG_ROWSPERSTRIP, &l.piece_height);
      l.piece_height = std::min(l.piece_height, l.height);
    }
    Check(l.piece_height > 0);
  }

  void ReadPalette() {
    uint16_t *red = nullptr, *green = nullptr, *blue = nullptr;
    Check(TIFFGetField(tiff_.get(), TIFFTAG_COLORMAP, &red, &green, &blue) == 1);
    layout_.palette = {red, green, blue};
  }

  /// Bytes of a strip or tile, of one plane if planes are apart.
  int64_t PieceBytes() const { return layout_.row_bytes(layout_.piece_width) * layout_.piece_height; }

  /// Beside the image there are a strip or a row of tiles in the file's layout, all planes of it; a tile; and the
  /// codec's own buffers. libtiff's conversion from YCbCr has a strip or tile of its own and four bytes a pixel.
  void AdmitPieces() {
    const Layout& l = layout_;
    const int64_t band_rows = std::min(l.piece_height, l.height), piece = PieceBytes();
    const bool is_ycbcr = l.photometric == PHOTOMETRIC_YCBCR;
    const int64_t band = is_ycbcr ? 4 * int64_t{l.width} * band_rows : l.planes() * band_rows * l.row_bytes(l.width);
    const int64_t tile = l.tiled || is_ycbcr ? piece * (is_ycbcr ? l.planes() : 1) : 0;
    const bool has_window = l.compression == COMPRESSION_LZMA || l.compression == COMPRESSION_ZSTD;
    const int64_t codec = (HoldsPieces() ? kCodecBuffers * piece : 0) + (has_window ? kWindowBytes : 0);
    Admit(source_, l.width, l.height, l.channels(), band + tile + codec);
  }

  /// True if the codec may hold a whole strip or tile: as coefficients, words of 16 or 32 bits, or a window.
  bool HoldsPieces() const {
    switch (layout_.compression) {
      case COMPRESSION_NONE:
      case COMPRESSION_CCITTRLE:
      case COMPRESSION_CCITTRLEW:
      case COMPRESSION_CCITTFAX3:
      case COMPRESSION_CCITTFAX4:
      case COMPRESSION_LZW:
      case COMPRESSION_PACKBITS:
      case COMPRESSION_DEFLATE:
      case COMPRESSION_ADOBE_DEFLATE:
        return false;
      default:
        return true;
    }
  }

  /// Rejects formats that no branch below reads.
  void CheckKind() {
    Layout& l = layout_;
    const bool grey = l.photometric == PHOTOMETRIC_MINISWHITE || l.photometric == PHOTOMETRIC_MINISBLACK;
    const bool small = l.bits == 1 || l.bits == 2 || l.bits == 4;
    bool ok = l.samples >= 1 && l.samples <= kMaxSamples;
    if (l.format == SAMPLEFORMAT_IEEEFP) {
      ok = ok && grey && l.bits == 32 && l.samples == 1;
    } else {
      ok = ok && (l.format == SAMPLEFORMAT_UINT || (l.format == SAMPLEFORMAT_INT && grey && l.samples == 1));
    }
    if (grey) {
      l.colours = 1;
      ok = ok && (l.bits == 8 || l.bits == 16 || ((small || l.bits == 12 || l.bits == 32) && l.samples == 1));
    } else if (l.photometric == PHOTOMETRIC_PALETTE) {
      l.colours = 1;
      ok = ok && (l.bits == 8 || (small && l.samples == 1));
    } else if (l.photometric == PHOTOMETRIC_RGB || l.photometric == PHOTOMETRIC_YCBCR) {
      l.colours = 3;
      ok = ok && (l.bits == 8 || (l.bits == 16 && l.photometric == PHOTOMETRIC_RGB));
    } else {
      l.colours = 4;
      ok = ok && l.photometric == PHOTOMETRIC_SEPARATED && (l.bits == 8 || l.bits == 16);
    }
    Require(ok && l.samples >= l.colours,
            "{}: TIFF: colour space {} with {} samples of {} bits (format {}) is not read", source_.where,
            l.photometric, l.samples, l.bits, l.format);
  }

  void ReadAlpha() {
    Layout& l = layout_;
    uint16_t count = 0, *kinds = nullptr;
    TIFFGetFieldDefaulted(tiff_.get(), TIFFTAG_EXTRASAMPLES, &count, &kinds);
    const bool takes_alpha =
        l.photometric == PHOTOMETRIC_RGB || (l.colours == 1 && l.photometric != PHOTOMETRIC_PALETTE);
    if (count == 0 || l.samples == l.colours || !takes_alpha) return;
    if (kinds[0] == EXTRASAMPLE_ASSOCALPHA) {
      l.alpha = Alpha::kPremultiplied;
    } else if (kinds[0] != EXTRASAMPLE_UNSPECIFIED) {
      l.alpha = Alpha::kStraight;
    }
  }

  /// Uses libtiff's conversion, as Pillow does for this colour space.
  Image ReadYcbcr() {
    TIFFRGBAImage rgba;
    char message[1024] = "";
    Require(TIFFRGBAImageBegin(&rgba, tiff_.get(), /*stop=*/1, message) != 0, "{}: TIFF: {}", source_.where, message);
    const std::unique_ptr<TIFFRGBAImage, void (*)(TIFFRGBAImage*)> end(&rgba, TIFFRGBAImageEnd);
    rgba.req_orientation = rgba.orientation = ORIENTATION_TOPLEFT;  // oriented later
    Image image = NewImage(source_, layout_.width, layout_.height, 3);
    const int64_t rows = std::min(layout_.piece_height, layout_.height);
    Tensor<uint32_t>& raster = source_.workspace.packed;
    raster.Reuse({rows, layout_.width});
    for (int64_t y = 0; y < layout_.height; y += rows) {
      const int64_t count = std::min(rows, layout_.height - y);
      Spend(kTiffStepsPerByte * count * layout_.width);
      std::fill(raster.span().begin(), raster.span().end(), 0);
      rgba.row_offset = static_cast<int>(y);
      Check(TIFFRGBAImageGet(&rgba, raster.data(), layout_.width, static_cast<uint32_t>(count)) != 0);
      uint8_t* out = image.pixels.view().at(y);
      for (const uint32_t pixel : raster.span().first(static_cast<size_t>(count * layout_.width))) {
        *out++ = static_cast<uint8_t>(TIFFGetR(pixel));
        *out++ = static_cast<uint8_t>(TIFFGetG(pixel));
        *out++ = static_cast<uint8_t>(TIFFGetB(pixel));
      }
    }
    return image;
  }

  /// Reads strips, or rows of tiles, in order, all planes of each, and converts them.
  void ReadBands(Image& image) {
    const Layout& l = layout_;
    const uint32_t rows = l.piece_height, tile_width = l.piece_width;
    Require(!l.tiled || int64_t{tile_width} * l.plane_samples() * l.bits % 8 == 0,
            "{}: TIFF: tiles of {} pixels' width", source_.where, tile_width);
    const int64_t row_bytes = l.row_bytes(l.width);
    // A tile may be declared far higher than the image.
    Tensor<uint8_t>& band = source_.workspace.band;
    Tensor<uint8_t>& tile = source_.workspace.tile;
    band.Reuse({l.planes(), int64_t{std::min(rows, l.height)}, row_bytes});
    std::fill(band.span().begin(), band.span().end(), uint8_t{0});
    const int64_t tile_bytes = l.tiled ? PieceBytes() : 0;
    Require(!l.tiled || TIFFTileSize(tiff_.get()) == tile_bytes, "{}: TIFF: tiles of an unexpected size",
            source_.where);
    if (l.tiled) tile.Reuse({tile_bytes});
    for (uint32_t y = 0; y < l.height; y += rows) {
      const uint32_t count = std::min(rows, l.height - y);
      for (int64_t plane = 0; plane < l.planes(); ++plane) {
        uint8_t* out = band.view().at(plane);
        if (l.tiled) {
          ReadTiles(y, count, static_cast<uint16_t>(plane), tile_width, tile, out);
        } else {
          const uint32_t strip = TIFFComputeStrip(tiff_.get(), y, static_cast<uint16_t>(plane));
          const tmsize_t wanted = row_bytes * count;
          Spend(kTiffStepsPerByte * wanted);
          Check(TIFFReadEncodedStrip(tiff_.get(), strip, out, wanted) == wanted);
        }
      }
      for (uint32_t i = 0; i < count; ++i) {
        Spend(kTiffStepsPerPixel * l.width);
        ConvertRow(band, i, image.pixels.view().at(y + i));
      }
    }
    Check(true);  // a message of the last read
  }

  void ReadTiles(uint32_t y, uint32_t count, uint16_t plane, uint32_t tile_width, Tensor<uint8_t>& tile, uint8_t* out) {
    const int64_t row_bytes = layout_.row_bytes(layout_.width), tile_row = layout_.row_bytes(tile_width);
    for (uint32_t x = 0; x < layout_.width; x += std::min(tile_width, layout_.width - x)) {
      Spend(kTiffStepsPerByte * tile.size());
      const uint32_t index = TIFFComputeTile(tiff_.get(), x, y, 0, plane);
      Check(TIFFReadEncodedTile(tiff_.get(), index, tile.data(), tile.size()) == tile.size());
      const int64_t begin = layout_.row_bytes(x), bytes = std::min(tile_row, row_bytes - begin);
      for (uint32_t i = 0; i < count; ++i)
        std::memcpy(out + i * row_bytes + begin, tile.data() + i * tile_row, static_cast<size_t>(bytes));
    }
  }

  /// Stored sample `s` of the pixel at x. libtiff has converted 16- and 32-bit numbers to the machine's byte order.
  uint32_t Sample(const Tensor<uint8_t>& band, int64_t row, int64_t x, int s) const {
    const Layout& l = layout_;
    const uint8_t* in = band.view().at(l.planar ? s : 0, row);
    const int64_t i = l.planar ? x : x * l.samples + s;
    switch (l.bits) {
      case 8:
        return in[i];
      case 12:
        return i % 2 == 0 ? in[i / 2 * 3] << 4 | in[i / 2 * 3 + 1] >> 4
                          : (in[i / 2 * 3 + 1] & 15) << 8 | in[i / 2 * 3 + 2];
      case 16: {
        uint16_t value;
        std::memcpy(&value, in + 2 * i, 2);
        return value;
      }
      case 32: {
        uint32_t value;
        std::memcpy(&value, in + 4 * i, 4);
        return value;
      }
      default:
        return in[i * l.bits / 8] >> (8 - l.bits - i * l.bits % 8) & ((1u << l.bits) - 1);
    }
  }

  /// A grey level of more than 8 bits as a number.
  double Level(uint32_t sample) const {
    if (layout_.format == SAMPLEFORMAT_IEEEFP) return std::bit_cast<float>(sample);
    if (layout_.bits == 32) return static_cast<int32_t>(sample);
    return layout_.format == SAMPLEFORMAT_INT ? static_cast<int16_t>(sample) : static_cast<double>(sample);
  }

  /// The high byte of a colour sample, or its value through the window.
  uint8_t Colour(uint32_t sample, bool windowed) const {
    if (layout_.bits != 16) return static_cast<uint8_t>(sample);
    if (windowed && source_.options.window) return Windowed(sample, *source_.options.window);
    return static_cast<uint8_t>(sample >> 8);
  }

  void ConvertRow(const Tensor<uint8_t>& band, int64_t row, uint8_t* out) const {
    const Layout& l = layout_;
    const int channels = l.channels(), colours = channels - (l.alpha != Alpha::kNone);
    const bool plain = l.photometric == PHOTOMETRIC_MINISBLACK || l.photometric == PHOTOMETRIC_RGB;
    if (plain && l.bits == 8 && !l.planar && l.samples == channels && l.alpha != Alpha::kPremultiplied) {
      std::memcpy(out, band.view().at(0, row), static_cast<size_t>(l.row_bytes(l.width)));
      return;
    }
    for (int64_t x = 0; x < l.width; ++x, out += channels) {
      const auto sample = [&](int s) { return Sample(band, row, x, s); };
      if (l.photometric == PHOTOMETRIC_PALETTE) {
        for (int c = 0; c < 3; ++c) out[c] = static_cast<uint8_t>(l.palette[c][sample(0)] >> 8);
      } else if (l.photometric == PHOTOMETRIC_SEPARATED) {
        uint8_t cmyk[4];
        for (int c = 0; c < 4; ++c) cmyk[c] = Colour(sample(c), false);
        CmykToRgb(cmyk, out);
      } else if (channels == 1 && l.bits > 8) {
        const double level = Level(sample(0));
        Narrow(source_.options, &level, 1, 1, out);
      } else if (colours == 1 && l.bits <= 8) {
        const uint32_t full = (1u << l.bits) - 1;
        const uint32_t level = sample(0) * (255 / full);
        out[0] = static_cast<uint8_t>(l.photometric == PHOTOMETRIC_MINISWHITE ? 255 - level : level);
      } else {
        for (int c = 0; c < colours; ++c) out[c] = Colour(sample(c), true);
      }
      if (l.alpha != Alpha::kNone) SetAlpha(Colour(sample(l.colours), false), colours, out);
    }
  }

  void SetAlpha(uint8_t alpha, int colours, uint8_t* out) const {
    out[colours] = alpha;
    if (layout_.alpha != Alpha::kPremultiplied) return;
    for (int c = 0; c < colours; ++c)
      out[c] = alpha == 0 ? 0 : static_cast<uint8_t>(std::min(255 * out[c] / alpha, 255));
  }

  const Source& source_;
  Input input_;
  TiffPointer tiff_{nullptr, TIFFClose};
  Layout layout_;
  std::string_view kind_;  // see KindInLevels
};

}  // namespace

Decoded DecodeTiff(const Source& source) { return TiffReader(source).Read(); }

}  // namespace qkv::image
