#include "qkv/slide/read/tiff_piece.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "qkv/core/error.h"
#include "qkv/core/work.h"
#include "qkv/image/jpeg2000.h"

namespace qkv::slide {
namespace {

// Aperio's; the third is what others write.
constexpr uint16_t kJpeg2000Ycc = 33003, kJpeg2000Rgb = 33005, kJpeg2000 = 34712;
constexpr int kMaxTiffSamples = 4;
constexpr int64_t kMaxPiecePixels = int64_t{1} << 28;
constexpr int64_t kStepsPerPieceByte = 4;

bool IsJpeg2000(const TiffPage& page) {
  return page.compression == kJpeg2000Ycc || page.compression == kJpeg2000Rgb || page.compression == kJpeg2000;
}

bool IsGrey(const TiffPage& page) {
  return page.photometric == PHOTOMETRIC_MINISBLACK || page.photometric == PHOTOMETRIC_MINISWHITE;
}

/// JPEG is converted by libjpeg, JPEG 2000 below; the rest by libtiff's own picture of RGBA.
bool IsByRgba(const TiffPage& page) {
  return page.photometric == PHOTOMETRIC_YCBCR && page.compression != COMPRESSION_JPEG && !IsJpeg2000(page);
}

/// A handle for the time of one piece; given back if nothing failed.
class BorrowedHandle {
 public:
  BorrowedHandle(const TiffFile& file, const TiffPage& page) : file_(file), page_(page), handle_(file.Borrow(page)) {}
  ~BorrowedHandle() {
    if (handle_ != nullptr && !failed_) file_.Return(page_, std::move(handle_));
  }
  BorrowedHandle(const BorrowedHandle&) = delete;
  BorrowedHandle& operator=(const BorrowedHandle&) = delete;

  TIFF* get() const { return handle_->get(); }
  void Check(bool ok, std::string_view where) {
    if (ok && !handle_->has_message()) return;
    failed_ = true;
    Fail("{}: {}", where, handle_->TakeMessage());
  }

 private:
  const TiffFile& file_;
  const TiffPage& page_;
  std::unique_ptr<TiffHandle> handle_;
  bool failed_ = false;
};

/// Rows of the piece: the last strip may be lower than the others.
int64_t RowsOf(const TiffPage& page, int64_t index) {
  if (page.tiled) return page.piece_height;
  return std::min<int64_t>(page.piece_height, page.height - index * page.piece_height);
}

uint8_t ClampedSample(int value) { return static_cast<uint8_t>(std::clamp(value, 0, 255)); }

/// JFIF's conversion from YCbCr, rounded as OpenSlide does: products to whole numbers, away from zero; those of green
/// summed in 16 bits of fraction.
struct YccTable {
  std::array<int, 256> red, blue, green_cb, green_cr;

  YccTable() {
    for (int i = 0; i < 256; ++i) {
      const double x = i - 128;
      red[i] = static_cast<int>(std::lround(1.402 * x));
      blue[i] = static_cast<int>(std::lround(1.772 * x));
      green_cb[i] = static_cast<int>(std::lround(65536 * (0.5 - 0.34414 * x)));
      green_cr[i] = static_cast<int>(std::lround(65536 * -0.71414 * x));
    }
  }
};

void YccToRgb(const YccTable& table, int y, int cb, int cr, uint8_t* rgb) {
  rgb[0] = ClampedSample(y + table.red[cr]);
  rgb[1] = ClampedSample(y + ((table.green_cb[cb] + table.green_cr[cr]) >> 16));
  rgb[2] = ClampedSample(y + table.blue[cb]);
}

void DecodeJpeg2000Piece(const TiffPage& page, std::span<const std::byte> bytes, std::string_view where,
                         Tensor<uint8_t>& rgb) {
  const int64_t pixels = rgb.dim(0) * rgb.dim(1);
  const image::Jpeg2000 decoded = image::DecodeJpeg2000(bytes, pixels, where);
  const int64_t channels = decoded.samples.dim(2);
  Require(decoded.samples.dim(0) == rgb.dim(0) && decoded.samples.dim(1) == rgb.dim(1) &&
              (channels == 3 || channels == 1) && !decoded.is_signed && decoded.bits >= 8,
          "{}: JPEG 2000 of {} x {} pixels, {} components of {} bits; expected {} x {}, 1 or 3 unsigned of 8 to 16",
          where, decoded.samples.dim(1), decoded.samples.dim(0), channels, decoded.bits, rgb.dim(1), rgb.dim(0));
  const bool is_ycc = channels == 3 && (page.compression == kJpeg2000Ycc || decoded.is_ycc ||
                                        (page.compression == kJpeg2000 && page.photometric == PHOTOMETRIC_YCBCR));
  static const YccTable kYcc;
  const int shift = decoded.bits - 8;
  const int32_t* in = decoded.samples.data();
  uint8_t* out = rgb.data();
  Spend(pixels);
  for (int64_t i = 0; i < pixels; ++i, in += channels, out += 3) {
    if (is_ycc) {
      YccToRgb(kYcc, ClampedSample(in[0] >> shift), ClampedSample(in[1] >> shift), ClampedSample(in[2] >> shift), out);
    } else {
      for (int64_t c = 0; c < 3; ++c) out[c] = ClampedSample(in[channels == 3 ? c : 0] >> shift);
    }
  }
}

std::vector<std::byte> ReadRawPiece(BorrowedHandle& tiff, const TiffFile& file, int64_t index, std::string_view where) {
  const auto count = TIFFGetStrileByteCount(tiff.get(), static_cast<uint32_t>(index));
  Require(count <= file.file().stamp().size, "{}: {} bytes, the file has {}", where, count, file.file().stamp().size);
  std::vector<std::byte> bytes(count);
  const tmsize_t got =
      TIFFIsTiled(tiff.get()) != 0
          ? TIFFReadRawTile(tiff.get(), static_cast<uint32_t>(index), bytes.data(), static_cast<tmsize_t>(count))
          : TIFFReadRawStrip(tiff.get(), static_cast<uint32_t>(index), bytes.data(), static_cast<tmsize_t>(count));
  tiff.Check(got == static_cast<tmsize_t>(count), where);
  return bytes;
}

/// By libtiff's interface for RGBA, whose rows are from the bottom.
void DecodeByRgba(BorrowedHandle& tiff, const TiffPage& page, int64_t index, std::string_view where,
                  Tensor<uint8_t>& rgb) {
  Spend(kStepsPerPieceByte * 3 * int64_t{page.piece_height} * page.piece_width);
  Tensor<uint32_t> raster({int64_t{page.piece_height}, int64_t{page.piece_width}});
  const auto x = static_cast<uint32_t>(index % page.across() * page.piece_width);
  const auto y = static_cast<uint32_t>(index / page.across() * page.piece_height);
  tiff.Check(page.tiled ? TIFFReadRGBATileExt(tiff.get(), x, y, raster.data(), 1) != 0
                        : TIFFReadRGBAStripExt(tiff.get(), y, raster.data(), 1) != 0,
             where);
  const int64_t rows = rgb.dim(0);
  uint8_t* out = rgb.data();
  for (int64_t row = rows - 1; row >= 0; --row) {
    for (const uint32_t pixel : raster.span().subspan(static_cast<size_t>(row * page.piece_width), page.piece_width)) {
      *out++ = static_cast<uint8_t>(TIFFGetR(pixel));
      *out++ = static_cast<uint8_t>(TIFFGetG(pixel));
      *out++ = static_cast<uint8_t>(TIFFGetB(pixel));
    }
  }
}

/// The file's samples, [planes, rows, width, samples of a plane], of 8 or 16 bits, and what they mean.
struct Samples {
  const TiffPage& page;
  const uint8_t* data;
  int64_t pixels;
  std::array<const uint16_t*, 3> palette{};

  /// Of 16 bits the high byte, as image/tiff.cc does.
  int At(int64_t pixel, int sample) const {
    const int64_t i = page.planar ? sample * pixels + pixel : pixel * page.samples + sample;
    if (page.bits == 8) return data[i];
    uint16_t value;
    std::memcpy(&value, data + 2 * i, 2);
    return value >> 8;
  }
};

void ConvertSamples(const Samples& in, uint8_t* out) {
  const TiffPage& page = in.page;
  const bool is_palette = page.photometric == PHOTOMETRIC_PALETTE, is_grey = IsGrey(page);
  const int colours = is_palette || is_grey ? 1 : 3;
  const bool has_alpha = page.samples > colours && page.alpha != EXTRASAMPLE_UNSPECIFIED && !is_palette;
  Spend(in.pixels);
  if (colours == 3 && page.samples == 3 && page.bits == 8 && !page.planar) {
    std::memcpy(out, in.data, static_cast<size_t>(in.pixels) * 3);
    return;
  }
  for (int64_t i = 0; i < in.pixels; ++i, out += 3) {
    for (int c = 0; c < 3; ++c) {
      const int sample = in.At(i, colours == 3 ? c : 0);
      const int value = is_palette                                   ? in.palette[c][sample] >> 8
                        : page.photometric == PHOTOMETRIC_MINISWHITE ? 255 - sample
                                                                     : sample;
      out[c] = static_cast<uint8_t>(value);
    }
    if (!has_alpha) continue;
    const int alpha = in.At(i, colours);
    for (int c = 0; c < 3; ++c) {
      const int colour = page.alpha == EXTRASAMPLE_ASSOCALPHA ? out[c] : (out[c] * alpha + 127) / 255;
      out[c] = ClampedSample(colour + 255 - alpha);
    }
  }
}

void DecodeSamples(BorrowedHandle& tiff, const TiffPage& page, int64_t index, std::string_view where,
                   Tensor<uint8_t>& rgb) {
  const int64_t pixels = rgb.dim(0) * rgb.dim(1);
  const int64_t plane = pixels * (page.planar ? 1 : page.samples) * (page.bits / 8);
  const bool plain = page.photometric == PHOTOMETRIC_RGB || page.photometric == PHOTOMETRIC_YCBCR;
  const bool direct = plain && page.bits == 8 && page.samples == 3 && !page.planar;
  Tensor<uint8_t> buffer;
  if (!direct) buffer.Reuse({page.planes() * plane});
  uint8_t* const samples = direct ? rgb.data() : buffer.data();
  for (int64_t p = 0; p < page.planes(); ++p) {
    const auto number = static_cast<uint32_t>(index + p * page.pieces());
    Spend(kStepsPerPieceByte * plane);
    const tmsize_t got = page.tiled ? TIFFReadEncodedTile(tiff.get(), number, samples + p * plane, plane)
                                    : TIFFReadEncodedStrip(tiff.get(), number, samples + p * plane, plane);
    tiff.Check(got == plane, where);
  }
  if (direct) return;
  Samples in{page, samples, pixels};
  if (page.photometric == PHOTOMETRIC_PALETTE) {
    uint16_t *red = nullptr, *green = nullptr, *blue = nullptr;
    tiff.Check(TIFFGetField(tiff.get(), TIFFTAG_COLORMAP, &red, &green, &blue) == 1, where);
    in.palette = {red, green, blue};
  }
  ConvertSamples(in, rgb.data());
}

}  // namespace

std::string UnreadablePage(const TiffPage& page) {
  if (IsJpeg2000(page) && !image::HasJpeg2000()) {
    return "TIFF: JPEG 2000: built without libopenjp2 (Debian: libopenjp2-7-dev)";
  }
  const bool has_codec =
      IsJpeg2000(page) || (page.compression != COMPRESSION_OJPEG && TIFFIsCODECConfigured(page.compression) != 0);
  if (!has_codec) return FormatShown("TIFF: compression {} is not read", page.compression);
  const bool is_colour = page.photometric == PHOTOMETRIC_RGB || page.photometric == PHOTOMETRIC_YCBCR;
  const int colours = is_colour ? 3 : 1;
  const bool known = is_colour || IsGrey(page) || page.photometric == PHOTOMETRIC_PALETTE;
  const bool has_bits = page.bits == 8 || (page.bits == 16 && (IsGrey(page) || page.photometric == PHOTOMETRIC_RGB));
  // Converted by libraries, which know colours alone.
  const bool by_library = page.photometric == PHOTOMETRIC_YCBCR || IsJpeg2000(page);
  const bool has_samples = page.samples >= colours && page.samples <= (by_library ? colours : kMaxTiffSamples);
  if (!known || !has_bits || !has_samples || page.sample_format != SAMPLEFORMAT_UINT || page.depth != 1)
    return FormatShown(
        "TIFF: colour space {} with {} samples of {} bits (format {}, depth {}) is not read; expected grey, palette, "
        "RGB "
        "or YCbCr of 8 or 16 bits",
        page.photometric, page.samples, page.bits, page.sample_format, page.depth);
  if (int64_t{page.piece_width} * page.piece_height > kMaxPiecePixels)
    return FormatShown("TIFF: {} of {} x {} pixels; write it again with tiles of 256 x 256",
                       page.tiled ? "tiles" : "strips", page.piece_width, page.piece_height);
  return {};
}

double PieceBytes(const TiffPage& page) {
  // RGB, the file's samples, and what codecs hold: words of 32 bits for JPEG 2000, twice.
  return static_cast<double>(page.piece_width) * page.piece_height * (3 + page.samples * (page.bits / 8) * 5 + 24);
}

std::vector<bool> AbsentPieces(const TiffFile& file, const TiffPage& page, std::string_view where) {
  std::vector<bool> absent(static_cast<size_t>(page.pieces()));
  BorrowedHandle tiff(file, page);
  for (size_t i = 0; i < absent.size(); ++i) {
    Spend(1);
    int error = 0;
    absent[i] = TIFFGetStrileByteCountWithErr(tiff.get(), static_cast<uint32_t>(i), &error) == 0;
    tiff.Check(error == 0, where);
  }
  return absent;
}

void DecodePiece(const TiffFile& file, const TiffPage& page, int64_t index, std::string_view where,
                 Tensor<uint8_t>& rgb) {
  rgb.Reuse({RowsOf(page, index), int64_t{page.piece_width}, 3});
  BorrowedHandle tiff(file, page);
  if (IsJpeg2000(page)) {
    const std::vector<std::byte> bytes = ReadRawPiece(tiff, file, index, where);
    DecodeJpeg2000Piece(page, bytes, where, rgb);
  } else if (IsByRgba(page)) {
    DecodeByRgba(tiff, page, index, where, rgb);
  } else {
    DecodeSamples(tiff, page, index, where, rgb);
  }
  tiff.Check(true, where);  // a message of the last read
}

}  // namespace qkv::slide
