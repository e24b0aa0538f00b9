// Data as zip archives and .gz files hold it. Its users link zlib.
#pragma once

#include <zlib.h>

#include <string>
#include <string_view>

#include "qkv/core/error.h"

namespace qkv {

/// window_bits: zlib's, which chooses the format.
inline std::string Compress(std::string_view data, int window_bits) {
  z_stream stream{};
  Require(deflateInit2(&stream, 9, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY) == Z_OK, "zlib does not start");
  std::string out(deflateBound(&stream, data.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data.data()));
  stream.avail_in = static_cast<uInt>(data.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int status = deflate(&stream, Z_FINISH);
  out.resize(out.size() - stream.avail_out);
  deflateEnd(&stream);
  Require(status == Z_STREAM_END, "zlib does not end");
  return out;
}

inline std::string Deflate(std::string_view data) { return Compress(data, -MAX_WBITS); }
inline std::string Gzip(std::string_view data) { return Compress(data, MAX_WBITS + 16); }

}  // namespace qkv
