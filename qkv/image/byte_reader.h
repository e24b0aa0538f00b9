// Sequential reader of a file's bytes that reports truncation. Internal to qkv/image.
#pragma once

#include <cstdint>

#include "qkv/image/codec.h"

namespace qkv::image {

class ByteReader {
 public:
  explicit ByteReader(const Source& source) : source_(source) {}

  size_t position() const { return position_; }
  size_t left() const { return source_.size() - position_; }
  void Seek(size_t position) {
    Require(position <= source_.size(), "{}: it points past its own end, to byte {}", source_.where, position);
    position_ = position;
  }
  /// Throws Error unless `count` bytes follow. Call it before allocating memory for them.
  void Expect(size_t count) const {
    Require(count <= left(), "{}: the file ends too early, at byte {}", source_.where, source_.size());
  }
  /// The next `count` bytes.
  const uint8_t* Take(size_t count) {
    Expect(count);
    const uint8_t* bytes = source_.data() + position_;
    position_ += count;
    return bytes;
  }
  uint8_t U8() { return *Take(1); }
  /// Reads a little-endian number.
  uint16_t U16() {
    const uint8_t* p = Take(2);
    return static_cast<uint16_t>(p[0] | p[1] << 8);
  }
  uint32_t U32() {
    const uint32_t low = U16();
    return low | static_cast<uint32_t>(U16()) << 16;
  }

 private:
  const Source& source_;
  size_t position_ = 0;
};

}  // namespace qkv::image
