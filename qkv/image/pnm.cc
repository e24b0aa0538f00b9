// PBM, PGM and PPM, plain and binary, up to 16 bits. Written here, because the specification is ten lines and Debian's
// libnetpbm exits the process on an invalid file.
#include <cctype>
#include <cmath>

#include "qkv/core/work.h"
#include "qkv/image/byte_reader.h"
#include "qkv/image/codec.h"

namespace qkv::image {
namespace {

class PnmReader {
 public:
  explicit PnmReader(const Source& source) : source_(source), reader_(source) {}

  Decoded Read() {
    const int kind = reader_.Take(2)[1] - '0';  // 1…6
    plain_ = kind <= 3;
    bits_ = kind == 1 || kind == 4;
    const int channels = kind % 3 == 0 ? 3 : 1;
    const int64_t width = Number(), height = Number();
    maximum_ = bits_ ? 1 : Number();
    Require(maximum_ > 0 && maximum_ < 65536, "{}: PNM: a maximum of {}", source_.where, maximum_);
    if (!plain_) Separator();
    CheckSize(source_, width, height);
    const int64_t samples = width * channels;
    if (!plain_) reader_.Expect(RowBytes(static_cast<size_t>(samples)) * static_cast<size_t>(height));
    Admit(source_, width, height, channels, 0);
    Decoded decoded{NewImage(source_, width, height, channels)};
    uint8_t* out = decoded.image.pixels.data();
    for (int64_t y = 0; y < height; ++y, out += samples) ReadRow(samples, channels, out);
    decoded.windowed = true;
    return decoded;
  }

 private:
  void Separator() {
    Require(std::isspace(reader_.U8()) != 0, "{}: PNM: no space before byte {}", source_.where, reader_.position());
  }

  /// The next byte that is not part of a comment.
  uint8_t Next() {
    Spend(1);
    uint8_t c = reader_.U8();
    while (c == '#') {
      for (; c != '\n' && c != '\r'; c = reader_.U8()) Spend(1);
    }
    return c;
  }

  int64_t Number() {
    uint8_t c = Next();
    while (std::isspace(c)) c = Next();
    int64_t number = 0;
    for (int digits = 0;; ++digits) {
      Require(c >= '0' && c <= '9' && digits < 10, "{}: PNM: no number before byte {}", source_.where,
              reader_.position());
      number = 10 * number + (c - '0');
      // Consumes the character after a number, unless the file ends there.
      if (reader_.left() == 0) return number;
      c = *reader_.Take(1);
      if (std::isspace(c) || c == '#') {
        reader_.Seek(reader_.position() - 1);
        return number;
      }
    }
  }

  /// One sample of a plain bitmap, whose digits need no separators.
  int64_t Bit() {
    uint8_t c = Next();
    while (std::isspace(c)) c = Next();
    Require(c == '0' || c == '1', "{}: PNM: no bit before byte {}", source_.where, reader_.position());
    return c - '0';
  }

  /// Bytes per row of a binary file.
  size_t RowBytes(size_t samples) const { return bits_ ? (samples + 7) / 8 : samples * (maximum_ > 255 ? 2 : 1); }

  void ReadRow(int64_t samples, int channels, uint8_t* out) {
    const uint8_t* in = plain_ ? nullptr : reader_.Take(RowBytes(static_cast<size_t>(samples)));
    ForEachRun(samples, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) out[i] = Level(plain_ ? PlainSample() : Sample(in, i), channels);
    });
  }

  int64_t PlainSample() {
    const int64_t sample = bits_ ? Bit() : Number();
    Require(sample <= maximum_, "{}: PNM: {} is more than the maximum of {}", source_.where, sample, maximum_);
    return sample;
  }

  int64_t Sample(const uint8_t* row, int64_t i) const {
    if (bits_) return row[i / 8] >> (7 - i % 8) & 1;
    return maximum_ > 255 ? row[2 * i] << 8 | row[2 * i + 1] : row[i];
  }

  /// Scales to 8 bits as Pillow does; grey of more than 8 bits is scaled to 16 and saturates at 255 later.
  uint8_t Level(int64_t sample, int channels) const {
    if (bits_) sample = 1 - sample;  // a set bit is black
    if (source_.options.window)
      return Windowed(static_cast<double>(bits_ ? 255 * sample : sample), *source_.options.window);
    const double full = channels == 1 && maximum_ > 255 ? 65535 : 255;
    const double scaled = std::nearbyint(static_cast<double>(sample) / static_cast<double>(maximum_) * full);
    return static_cast<uint8_t>(std::min(scaled, 255.0));
  }

  const Source& source_;
  ByteReader reader_;
  bool plain_ = false, bits_ = false;
  int64_t maximum_ = 1;
};

}  // namespace

Decoded DecodePnm(const Source& source) { return PnmReader(source).Read(); }

}  // namespace qkv::image
