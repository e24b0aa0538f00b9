#include "qkv/image/jpeg2000_header.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "qkv/core/error.h"
#include "qkv/core/work.h"

namespace qkv::image {
namespace {

constexpr int kMaxComponents = 4;
// A marker's code, then (but for the first and last of a stream) its length, which counts itself.
constexpr int kSoc = 0xFF4F, kSiz = 0xFF51, kCod = 0xFF52, kCoc = 0xFF53, kSot = 0xFF90, kSod = 0xFF93, kEoc = 0xFFD9;
// libopenjp2 2.5's structures: a tile's settings, those of one of its components, a code block with its segments, and a
// precinct of a band with its two tag trees.
constexpr double kTileBytes = 6144, kTileComponentBytes = 1280, kBlockBytes = 768, kPrecinctBytes = 320;
// Samples are words of 32 bits: in the tile, in the picture, and a work area of the wavelet transform, which one row
// or column of the tile takes and is far below another tile.
constexpr double kSampleBytes = 4;
constexpr int64_t kMost = int64_t{1} << 60;

/// Big-endian numbers, up to the end of a part.
class Reader2000 {
 public:
  Reader2000(std::span<const std::byte> bytes, std::string_view where) : bytes_(bytes), where_(where) {}

  size_t position() const { return position_; }
  size_t left() const { return bytes_.size() - position_; }
  uint64_t Take(int count) {
    Expect(static_cast<size_t>(count));
    uint64_t value = 0;
    for (int i = 0; i < count; ++i) value = value << 8 | static_cast<uint8_t>(bytes_[position_++]);
    return value;
  }
  int Byte() { return static_cast<int>(Take(1)); }
  int Word() { return static_cast<int>(Take(2)); }
  int64_t Long() { return static_cast<int64_t>(Take(4)); }
  std::span<const std::byte> Part(size_t count) {
    Expect(count);
    position_ += count;
    return bytes_.subspan(position_ - count, count);
  }

 private:
  void Expect(size_t count) const {
    Require(count <= left(), "{}: JPEG 2000: ends too early, at byte {} of a part", where_, bytes_.size());
  }

  std::span<const std::byte> bytes_;
  std::string_view where_;
  size_t position_ = 0;
};

/// How a tile is cut: the finest of all settings that apply to some tile, component or resolution.
struct Blocks {
  int levels = 0;                       // of wavelets
  int log_width = 10, log_height = 10;  // of a code block
  int precinct_log_width = 15, precinct_log_height = 15;
  int64_t layers = 1;
};

class CodestreamReader {
 public:
  CodestreamReader(std::span<const std::byte> bytes, int64_t max_pixels, std::string_view where)
      : in_(bytes, where), max_pixels_(max_pixels), where_(where) {}

  void Read(Jpeg2000Header& header) {
    Require(in_.left() >= 4 && in_.Word() == kSoc && in_.Word() == kSiz, "{}: JPEG 2000: no codestream", where_);
    ReadSize(header);
    bool has_coding = false;
    int marker = in_.Word();
    for (; marker != kSot; marker = in_.Word()) {
      Require(marker >= 0xFF00 && marker != kSod && marker != kEoc, "{}: JPEG 2000: marker {:#06x} in the header",
              where_, marker);
      has_coding = has_coding || marker == kCod;
      ReadSegment(marker);
    }
    Require(has_coding, "{}: JPEG 2000: the header does not say how it is coded", where_);
    ReadTileParts();
    header.library_bytes = LibraryBytes(header);
  }

 private:
  void ReadSize(Jpeg2000Header& header) {
    Reader2000 in(in_.Part(static_cast<size_t>(std::max(in_.Word(), 2) - 2)), where_);
    in.Word();  // capabilities
    const int64_t right = in.Long(), bottom = in.Long();
    header.grid_x = in.Long();
    header.grid_y = in.Long();
    tile_width_ = in.Long();
    tile_height_ = in.Long();
    const int64_t tile_x = in.Long(), tile_y = in.Long();
    const int64_t width = right - header.grid_x, height = bottom - header.grid_y;
    Require(width > 0 && height > 0 && tile_width_ > 0 && tile_height_ > 0 && tile_x <= header.grid_x &&
                tile_y <= header.grid_y && tile_x + tile_width_ > header.grid_x &&
                tile_y + tile_height_ > header.grid_y,
            "{}: JPEG 2000: a picture of {} x {} pixels in tiles of {} x {}", where_, width, height, tile_width_,
            tile_height_);
    const int components = in.Word();
    Require(components >= 1 && components <= kMaxComponents,
            "{}: JPEG 2000: {} components, expected 1 to {}: grey or colours, with or without alpha", where_,
            components, kMaxComponents);
    for (int c = 0; c < components; ++c) {
      const int bits = (in.Byte() & 127) + 1;
      const int64_t step_x = in.Byte(), step_y = in.Byte();
      Require(bits <= 16 && step_x > 0 && step_y > 0,
              "{}: JPEG 2000: component {} of {} bits, every {} x {} pixels; expected 1 to 16 bits", where_, c, bits,
              step_x, step_y);
      const int64_t columns = Up(right, step_x) - Up(header.grid_x, step_x);
      const int64_t rows = Up(bottom, step_y) - Up(header.grid_y, step_y);
      Require(columns > 0 && rows > 0, "{}: JPEG 2000: component {} is empty", where_, c);
      // The first decides on the picture; a finer one would be more than that.
      if (c == 0) {
        header.width = columns;
        header.height = rows;
        first_step_x_ = step_x;
        first_step_y_ = step_y;
      }
      Require(step_x >= first_step_x_ && step_y >= first_step_y_, "{}: JPEG 2000: component {} is finer than the first",
              where_, c);
    }
    Require(header.width <= max_pixels_ / header.height, "{}: {} x {} pixels are more than the limit of {}", where_,
            header.width, header.height, max_pixels_);
    header.components = header.channels = components;
    tile_width_ = std::min(tile_width_, right - tile_x);
    tile_height_ = std::min(tile_height_, bottom - tile_y);
    const int64_t across = Up(right - tile_x, tile_width_), down = Up(bottom - tile_y, tile_height_);
    // Each has a part of at least 14 bytes, and there are at most 65,535.
    Require(across <= 65535 && down <= 65535 && across * down <= 65535 &&
                static_cast<size_t>(across * down) * 14 <= in_.left(),
            "{}: JPEG 2000: {} x {} tiles in {} bytes", where_, across, down, in_.left());
    tiles_.assign(static_cast<size_t>(across * down), false);
  }

  static int64_t Up(int64_t a, int64_t b) { return (a + b - 1) / b; }

  /// A segment with a length. Those that cut tiles into blocks are kept in mind.
  void ReadSegment(int marker) {
    if (marker >= 0xFF30 && marker <= 0xFF3F) return;  // without a length
    Reader2000 in(in_.Part(static_cast<size_t>(std::max(in_.Word(), 2) - 2)), where_);
    if (marker != kCod && marker != kCoc) return;
    bool has_precincts;
    if (marker == kCod) {
      has_precincts = (in.Byte() & 1) != 0;
      in.Byte();  // order of packets
      blocks_.layers = std::max<int64_t>(blocks_.layers, in.Word());
      in.Byte();  // transform of colours
    } else {
      in.Byte();  // component: there are less than 257
      has_precincts = (in.Byte() & 1) != 0;
    }
    const int levels = in.Byte();
    const int log_width = (in.Byte() & 15) + 2, log_height = (in.Byte() & 15) + 2;
    Require(levels <= 32 && log_width <= 10 && log_height <= 10 && log_width + log_height <= 12,
            "{}: JPEG 2000: {} levels of blocks of 2^{} x 2^{}", where_, levels, log_width, log_height);
    blocks_.levels = std::max(blocks_.levels, levels);
    blocks_.log_width = std::min(blocks_.log_width, log_width);
    blocks_.log_height = std::min(blocks_.log_height, log_height);
    in.Word();  // style of blocks, wavelet
    for (int r = 0; has_precincts && r <= levels; ++r) {
      const int sizes = in.Byte();
      blocks_.precinct_log_width = std::min(blocks_.precinct_log_width, sizes & 15);
      blocks_.precinct_log_height = std::min(blocks_.precinct_log_height, sizes >> 4);
    }
  }

  void ReadTileParts() {
    // Behind the marker SOT of the first.
    while (true) {
      Spend(1);
      const size_t begin = in_.position() - 2;
      Require(in_.Word() == 10, "{}: JPEG 2000: a tile's header is damaged", where_);
      const auto tile = static_cast<size_t>(in_.Word());
      const int64_t length = in_.Long();
      in_.Word();
      Require(tile < tiles_.size(), "{}: JPEG 2000: tile {} of {}", where_, tile, tiles_.size());
      tiles_[tile] = true;
      for (int marker = in_.Word(); marker != kSod; marker = in_.Word()) {
        Require(marker >= 0xFF00 && marker != kSot && marker != kEoc, "{}: JPEG 2000: marker {:#06x} in tile {}",
                where_, marker, tile);
        ReadSegment(marker);
      }
      if (length == 0) break;  // up to the end
      const size_t read = in_.position() - begin;
      Require(static_cast<size_t>(length) >= read && static_cast<size_t>(length) - read <= in_.left(),
              "{}: JPEG 2000: ends too early: a part of tile {} has {} bytes, {} are there", where_, tile, length,
              in_.left() + read);
      in_.Part(static_cast<size_t>(length) - read);
      // Some writers leave the mark of the end out.
      if (in_.left() < 12 || in_.Word() != kSot) break;
    }
    const auto absent = std::ranges::find(tiles_, false);
    Require(absent == tiles_.end(), "{}: JPEG 2000: tile {} of {} has no data", where_, absent - tiles_.begin(),
            tiles_.size());
  }

  int64_t LibraryBytes(const Jpeg2000Header& header) const {
    const double width = static_cast<double>(Up(tile_width_, first_step_x_)) + 1;
    const double height = static_cast<double>(Up(tile_height_, first_step_y_)) + 1;
    double blocks = 0, precincts = 0, most_precincts = 0;
    for (int r = 0; r <= blocks_.levels; ++r) {
      const double scale = std::ldexp(1.0, blocks_.levels - r);
      const double w = std::ceil(width / scale) + 1, h = std::ceil(height / scale) + 1;
      const int pw = blocks_.precinct_log_width, ph = blocks_.precinct_log_height;
      const int bands = r == 0 ? 1 : 3, half = r == 0 ? 0 : 1;
      const double here = (std::ceil(std::ldexp(w, -pw)) + 1) * (std::ceil(std::ldexp(h, -ph)) + 1);
      const int bw = std::min(blocks_.log_width, std::max(pw - half, 0));
      const int bh = std::min(blocks_.log_height, std::max(ph - half, 0));
      blocks += bands * (std::ceil(std::ldexp(w, -half - bw)) + 2) * (std::ceil(std::ldexp(h, -half - bh)) + 2);
      precincts += bands * here;
      most_precincts = std::max(most_precincts, here);
    }
    const double components = header.components;
    // Which packets were met: a mark of 16 bits each.
    const double packets =
        2.0 * static_cast<double>(blocks_.layers + 1) * components * (blocks_.levels + 1) * most_precincts;
    const double tile = width * height;
    const double picture = static_cast<double>(header.width) * static_cast<double>(header.height);
    const double bytes = static_cast<double>(tiles_.size()) * (kTileBytes + components * kTileComponentBytes) +
                         components * (blocks * kBlockBytes + precincts * kPrecinctBytes) + packets +
                         kSampleBytes * components * (tile + picture);
    return static_cast<int64_t>(std::min(bytes, static_cast<double>(kMost)));
  }

  Reader2000 in_;
  const int64_t max_pixels_;
  std::string_view where_;
  int64_t tile_width_ = 0, tile_height_ = 0, first_step_x_ = 1, first_step_y_ = 1;
  std::vector<bool> tiles_;  // that have data
  Blocks blocks_;
};

constexpr std::string_view kSignature("\0\0\0\x0CjP  \r\n\x87\n", 12);

struct Jp2Box {
  uint32_t type = 0;
  std::span<const std::byte> content;
};
constexpr uint32_t kCodestreamBox = 0x6A703263, kHeaderBox = 0x6A703268, kPaletteBox = 0x70636C72;  // jp2c, jp2h, pclr

/// The next box; of type 0 if there is none.
Jp2Box TakeBox(Reader2000& in, std::string_view where) {
  if (in.left() < 8) return {};
  uint64_t length = in.Take(4), header = 8;
  const auto type = static_cast<uint32_t>(in.Take(4));
  if (length == 1) {
    length = in.Take(8);
    header = 16;
  } else if (length == 0) {  // the last one
    length = in.left() + header;
  }
  Require(length >= header && length - header <= in.left(),
          "{}: JPEG 2000: ends too early: a part of {} bytes, {} are there", where, length, in.left() + header);
  return {type, in.Part(static_cast<size_t>(length - header))};
}

/// The codestream of a file, and how many channels a palette makes, if it has one.
std::span<const std::byte> FindCodestream(std::span<const std::byte> bytes, std::string_view where, int& channels) {
  Reader2000 in(bytes, where);
  for (Jp2Box box = TakeBox(in, where); box.type != 0; box = TakeBox(in, where)) {
    Spend(1);
    if (box.type == kCodestreamBox) return box.content;
    if (box.type != kHeaderBox) continue;
    Reader2000 header(box.content, where);
    for (Jp2Box part = TakeBox(header, where); part.type != 0; part = TakeBox(header, where)) {
      Spend(1);
      if (part.type == kPaletteBox && part.content.size() >= 3)
        channels = std::max(channels, std::to_integer<int>(part.content[2]));
    }
  }
  return {};
}

}  // namespace

Jpeg2000Header ReadJpeg2000Header(std::span<const std::byte> bytes, int64_t max_pixels, std::string_view where) {
  Jpeg2000Header header;
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  header.is_file = text.starts_with(kSignature);
  int channels = 0;
  const std::span<const std::byte> stream = header.is_file ? FindCodestream(bytes, where, channels) : bytes;
  CodestreamReader(stream, max_pixels, where).Read(header);
  if (channels > 0) {
    Require(channels <= kMaxComponents, "{}: JPEG 2000: a palette of {} channels, expected 1 to {}", where, channels,
            kMaxComponents);
    header.channels = channels;
    header.library_bytes += static_cast<int64_t>(kSampleBytes) * header.width * header.height * channels;
  }
  return header;
}

}  // namespace qkv::image
