#include "qkv/io/gzip.h"

#include <zlib.h>

#include <algorithm>

#include "qkv/core/error.h"
#include "qkv/core/memory.h"

namespace qkv::io {
namespace {

constexpr size_t kGzipPiece = size_t{1} << 16;  // bytes decompressed at a time

// zlib's state (RAII).
class Inflater {
 public:
  Inflater() { Require(inflateInit2(&stream_, 15 + 16) == Z_OK, "gzip: no memory"); }  // 16: with gzip's header
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  // Appends up to `count` decompressed bytes to `text` and consumes their input from `bytes`. Returns true at the end
  // of the stream.
  bool Next(std::span<const std::byte>& bytes, size_t count, std::string_view where, std::string* text) {
    const size_t end = text->size();
    text->resize(end + count);
    const auto in = static_cast<uInt>(std::min(bytes.size(), kGzipPiece));
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(bytes.data()));
    stream_.avail_in = in;
    stream_.next_out = reinterpret_cast<Bytef*>(text->data() + end);
    stream_.avail_out = static_cast<uInt>(count);
    const int status = inflate(&stream_, Z_NO_FLUSH);
    Require(status == Z_OK || status == Z_STREAM_END || status == Z_BUF_ERROR, "{}: damaged gzip data{}{}", where,
            stream_.msg ? ": " : "", stream_.msg ? stream_.msg : "");
    const bool idle = stream_.avail_in == in && stream_.avail_out == count;
    Require(status == Z_STREAM_END || !idle || !bytes.empty(), "{}: the gzip data ends too early", where);
    text->erase(text->size() - stream_.avail_out);
    bytes = bytes.subspan(in - stream_.avail_in);
    return status == Z_STREAM_END;
  }

 private:
  z_stream stream_{};
};

// The unpacked length that the gzip trailer declares (RFC 1952, ISIZE): modulo 2^32, and of the last member only.
size_t DeclaredLength(std::span<const std::byte> bytes) {
  constexpr size_t kTrailer = 4;
  size_t length = 0;
  for (size_t i = 0; i < kTrailer && bytes.size() >= kTrailer; ++i) {
    length |= static_cast<size_t>(bytes[bytes.size() - kTrailer + i]) << (8 * i);
  }
  // DEFLATE expands at most about 1,032 times; a trailer that declares more is wrong.
  constexpr size_t kMostTimes = 1032;
  return std::min(length, kMostTimes * bytes.size());
}

}  // namespace

bool IsGzip(std::span<const std::byte> bytes) {
  return bytes.size() >= 2 && bytes[0] == std::byte{0x1F} && bytes[1] == std::byte{0x8B};
}

std::string Gunzip(std::span<const std::byte> bytes, size_t max_bytes, std::string_view where) {
  // Checks the declared length before decompressing. If the trailer declares too little, the loop below stops at the
  // limit.
  const size_t told = DeclaredLength(bytes);
  Require(told <= max_bytes, "{}: unpacks to {}, more than the {} that are accepted", where,
          FormatBytes(static_cast<double>(told)), FormatBytes(static_cast<double>(max_bytes)));
  RequireMemory(static_cast<double>(told), where);
  std::string text;
  text.reserve(told);
  while (!bytes.empty()) {  // gzip members may be concatenated
    Inflater inflater;
    for (bool ended = false; !ended;) {
      ended = inflater.Next(bytes, std::min(kGzipPiece, max_bytes + 1 - text.size()), where, &text);
      Require(text.size() <= max_bytes, "{}: unpacks to more than {}", where,
              FormatBytes(static_cast<double>(max_bytes)));
      RequireMemory(static_cast<double>(text.size()), where);
    }
  }
  return text;
}

std::string GunzipFirst(std::span<const std::byte> bytes, size_t count, std::string_view where) {
  std::string text;
  while (!bytes.empty() && text.size() < count) {
    Inflater inflater;
    while (text.size() < count && !inflater.Next(bytes, count - text.size(), where, &text)) {
    }
  }
  return text;
}

struct GzipSink::State {
  FileSink* to;
  z_stream stream{};
  std::string packed;

  ~State() { deflateEnd(&stream); }
  void Deflate(std::span<const std::byte> bytes, int flush);
};

void GzipSink::State::Deflate(std::span<const std::byte> bytes, int flush) {
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  do {
    stream.next_out = reinterpret_cast<Bytef*>(packed.data());
    stream.avail_out = static_cast<uInt>(packed.size());
    deflate(&stream, flush);
    to->Write(std::string_view(packed).substr(0, packed.size() - stream.avail_out));
  } while (stream.avail_out == 0);
}

GzipSink::GzipSink(FileSink& to) : state_(std::make_unique<State>()) {
  state_->to = &to;
  state_->packed.resize(kGzipPiece);
  constexpr int kGzipWindow = 15 + 16, kMemoryLevel = 8;
  Require(deflateInit2(&state_->stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzipWindow, kMemoryLevel,
                       Z_DEFAULT_STRATEGY) == Z_OK,
          "gzip: no memory");
}

GzipSink::~GzipSink() = default;

void GzipSink::Write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const size_t piece = std::min(bytes.size(), kGzipPiece);
    state_->Deflate(bytes.first(piece), Z_NO_FLUSH);
    bytes = bytes.subspan(piece);
  }
}

void GzipSink::Finish() { state_->Deflate({}, Z_FINISH); }

}  // namespace qkv::io
