#include "qkv/image/image.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <string>

#include "qkv/core/file.h"
#include "qkv/core/memory.h"
#include "qkv/image/codec.h"
#include "qkv/image/dicom_mark.h"
#include "qkv/image/orient.h"

namespace qkv::image {
namespace {

using Reader = Decoded (*)(const Source&);

bool IsPnm(const uint8_t* p) {
  return p[0] == 'P' && p[1] >= '1' && p[1] <= '6' && (std::isspace(p[2]) != 0 || p[2] == '#');
}

// Upper bound of a file's length: its pixels uncompressed, at four samples of 16 bits, plus headers.
constexpr size_t kMaxSampleBytes = 8, kMaxHeaderBytes = size_t{64} << 20;
// Buffers of longer files are freed after each file.
constexpr int64_t kKeptBytes = int64_t{1} << 26;
// Number of bytes that identify the format.
constexpr size_t kHeadBytes = kDicomHeadBytes;
// More than any machine holds, and few enough that their bytes can be counted.
constexpr int64_t kMostPixels = int64_t{1} << 48;

/// The reader for a file that begins with these bytes, or null.
Reader FindReader(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), std::min(bytes.size(), kHeadBytes));
  using namespace std::string_view_literals;
  if (text.size() < 8) return nullptr;     // shorter than any valid file
  if (IsDicom(bytes)) return DecodeDicom;  // before TIFF, as which some of them begin
  if (text.starts_with("\xFF\xD8\xFF"sv)) return DecodeJpeg;
  if (text.starts_with("\x89PNG\r\n\x1A\n"sv)) return DecodePng;
  if (text.starts_with("RIFF"sv) && text.substr(8).starts_with("WEBP"sv)) return DecodeWebp;
  if (text.starts_with("GIF87a"sv) || text.starts_with("GIF89a"sv)) return DecodeGif;
  if (text.starts_with("BM"sv)) return DecodeBmp;
  for (const auto magic : {"II*\0"sv, "MM\0*"sv, "II+\0"sv, "MM\0+"sv})
    if (text.starts_with(magic)) return DecodeTiff;
  if (text.substr(4).starts_with("ftyp"sv)) {
    for (const auto brand :
         {"heic"sv, "heix"sv, "heim"sv, "heis"sv, "hevc"sv, "hevx"sv, "mif1"sv, "msf1"sv, "avif"sv, "avis"sv})
      if (text.substr(8).starts_with(brand)) return DecodeHeif;
  }
  if (text.starts_with("\xFF\x4F\xFF\x51"sv) || text.starts_with("\0\0\0\x0CjP  "sv)) return DecodeJp2;
  if (IsPnm(reinterpret_cast<const uint8_t*>(text.data()))) return DecodePnm;
  return nullptr;
}

/// The same; throws Error if there is none.
Reader ReaderFor(std::span<const std::byte> bytes, std::string_view where) {
  Require(!bytes.empty(), "{}: an empty file", where);
  const Reader reader = FindReader(bytes);
  Require(reader != nullptr, "{}: no JPEG, PNG, WebP, GIF, BMP, TIFF, HEIC, AVIF, JPEG 2000, DICOM or PPM", where);
  return reader;
}

/// Maps 8-bit samples through the window; alpha is unchanged.
void ApplyWindow(const std::pair<double, double>& window, Image& image) {
  std::array<uint8_t, 256> table;
  for (int i = 0; i < 256; ++i) table[i] = Windowed(i, window);
  const int64_t channels = image.channels(), colours = channels - (channels % 2 == 0);
  ForEachRun(image.height() * image.width(), [&](int64_t begin, int64_t end) {
    uint8_t* pixel = image.pixels.data() + begin * channels;
    for (int64_t i = begin; i < end; ++i, pixel += channels)
      for (int64_t c = 0; c < colours; ++c) pixel[c] = table[pixel[c]];
  });
}

/// Pillow's fixed-point luma (ITU-R 601-2).
uint8_t Luma(const uint8_t* rgb) {
  return static_cast<uint8_t>((rgb[0] * 19595 + rgb[1] * 38470 + rgb[2] * 7471 + 0x8000) >> 16);
}

void AdmitBytes(const DecodeOptions& options, std::string_view where, int64_t bytes, int64_t& admitted) {
  if (bytes <= admitted) return;
  if (bytes > MemoryLimit()) RequireMemory(static_cast<double>(bytes), FormatShown("{}: decoding it", where));
  if (options.admit) options.admit(bytes);
  admitted = bytes;
}

/// Bytes that readers leave in a workspace.
int64_t ScratchBytes(const Workspace& workspace) {
  return workspace.band.size() + workspace.tile.size() + std::ssize(workspace.row) +
         workspace.deep.size() * static_cast<int64_t>(sizeof(uint16_t)) +
         workspace.packed.size() * static_cast<int64_t>(sizeof(uint32_t));
}

}  // namespace

void CheckSize(const Source& source, int64_t width, int64_t height) {
  Require(width > 0 && height > 0, "{}: an image of {} x {} pixels", source.where, width, height);
  const int64_t most = std::min(source.options.max_pixels, kMostPixels);
  Require(width <= most / height, "{}: {} x {} pixels are more than the limit of {}", source.where, width, height,
          most);
}

void Admit(const Source& source, int64_t width, int64_t height, int channels, int64_t beside) {
  CheckSize(source, width, height);
  AdmitBytes(source.options, source.where, width * height * channels + beside, source.admitted);
}

bool Interrupt::Spend(int64_t steps) noexcept {
  try {
    qkv::Spend(steps);
  } catch (...) {
    thrown_ = std::current_exception();
  }
  return thrown_ == nullptr;
}

Image NewImage(const Source& source, int64_t width, int64_t height, int channels) {
  Image image{std::move(source.spare)};
  image.pixels.Reuse({height, width, channels});
  std::memset(image.pixels.data(), 0, static_cast<size_t>(image.pixels.size()));
  return image;
}

void Decode(std::span<const std::byte> bytes, const DecodeOptions& options, std::string_view where,
            Workspace& workspace, Image& image) {
  if (options.window) {
    const auto [low, high] = *options.window;
    Require(std::isfinite(low) && std::isfinite(high) && low != high, "{}: a window of grey levels from {} to {}",
            where, low, high);
  }
  int64_t admitted = 0;
  Decoded decoded = ReaderFor(bytes, where)({bytes, options, where, workspace, image.pixels, admitted});
  if (options.window && !decoded.windowed) ApplyWindow(*options.window, decoded.image);
  image = std::move(decoded.image);
  if (decoded.orientation > 1 && (options.exif_orientation || decoded.always_upright)) {
    AdmitBytes(options, where, 2 * image.pixels.size() + ScratchBytes(workspace), admitted);
    ApplyOrientation(image, decoded.orientation, workspace.turned);
  }
}

void DecodeFile(const std::filesystem::path& path, const DecodeOptions& options, Workspace& workspace, Image& image) {
  // Read, not mapped: if another process truncates the file, this is an error instead of a fault in a decoder.
  InputFile file(path);
  const size_t size = file.stamp().size;
  const std::string& where = path.native();
  std::array<std::byte, kHeadBytes> head;
  const std::span<std::byte> first = std::span(head).first(std::min(size, kHeadBytes));
  file.Read(first);
  ReaderFor(first, where);  // before allocating memory for the file
  const size_t most = kMaxHeaderBytes + kMaxSampleBytes * static_cast<size_t>(options.max_pixels);
  Require(
      size <= most,
      "{}: {} bytes, expected at most {} for an image of up to {} pixels (--max-pixels); of a slide, qkv slide embed "
      "takes the tiles",
      where, size, most, options.max_pixels);
  RequireMemory(static_cast<double>(size), where);
  workspace.file.Reuse({static_cast<int64_t>(size)});
  const std::span<std::byte> bytes = std::as_writable_bytes(workspace.file.span());
  std::ranges::copy(first, bytes.begin());
  const struct Release {
    Tensor<uint8_t>& file;
    ~Release() {
      if (file.size() > kKeptBytes) file = {};
    }
  } release{workspace.file};
  file.Read(bytes.subspan(first.size()));
  Decode(bytes, options, where, workspace, image);
}

Image Decode(std::span<const std::byte> bytes, const DecodeOptions& options, std::string_view where) {
  Workspace workspace;
  Image image;
  Decode(bytes, options, where, workspace, image);
  return image;
}

Image DecodeFile(const std::filesystem::path& path, const DecodeOptions& options) {
  Workspace workspace;
  Image image;
  DecodeFile(path, options, workspace, image);
  return image;
}

bool HasImageEnding(const std::filesystem::path& path) {
  std::string ending = path.extension().string();
  for (char& c : ending) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const char* known : {".jpg", ".jpeg", ".jpe",  ".jfif", ".png",   ".webp", ".gif", ".bmp", ".dib",
                            ".tif", ".tiff", ".heic", ".heif", ".hif",   ".avif", ".jp2", ".j2k", ".jpx",
                            ".jpf", ".jpc",  ".j2c",  ".dcm",  ".dicom", ".ppm",  ".pgm", ".pbm", ".pnm"})
    if (ending == known) return true;
  return false;
}

namespace {

// From the first to the last: `out` may be `in` if there are fewer channels.
void ConvertPixels(const uint8_t* pixels, int64_t from, int64_t count, int channels, uint8_t* converted) {
  ForEachRun(count, [&](int64_t begin, int64_t end) {
    const uint8_t* in = pixels + begin * from;
    uint8_t* out = converted + begin * channels;
    for (int64_t i = begin; i < end; ++i, in += from, out += channels) {
      if (channels == 1) {
        out[0] = from >= 3 ? Luma(in) : in[0];
      } else {
        out[0] = in[0];
        out[1] = from >= 3 ? in[1] : in[0];
        out[2] = from >= 3 ? in[2] : in[0];
      }
    }
  });
}

}  // namespace

Image ToChannels(const Image& image, int channels) {
  Image result;
  ToChannels(image, channels, result);
  return result;
}

void ToChannels(const Image& image, int channels, Image& converted) {
  Require(channels == 1 || channels == 3, "image: a model has 1 or 3 channels, not {}", channels);
  const int64_t from = image.channels();
  converted.pixels.Reuse({image.height(), image.width(), channels});
  if (from == channels) {
    std::copy_n(image.pixels.data(), image.pixels.size(), converted.pixels.data());
    return;
  }
  ConvertPixels(image.pixels.data(), from, image.height() * image.width(), channels, converted.pixels.data());
}

void DropChannels(Image& image, int channels) {
  const int64_t from = image.channels();
  Require((channels == 1 || channels == 3) && channels < from, "image: cannot drop {} channels to {}", from, channels);
  uint8_t* const pixels = image.pixels.data();
  ConvertPixels(pixels, from, image.height() * image.width(), channels, pixels);
  image.pixels.Reuse({image.height(), image.width(), channels});  // keeps its beginning: it becomes smaller
}

}  // namespace qkv::image
