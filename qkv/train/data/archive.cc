#include "qkv/train/data/archive.h"

#include <zlib.h>

#include <algorithm>
#include <cstdint>

#include "qkv/core/error.h"
#include "qkv/core/memory.h"

namespace qkv::train {
namespace {

constexpr size_t kBlock = 512;  // tar's

constexpr size_t kPiece = size_t{1} << 16;  // bytes decompressed, or read, at a time

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
    const auto in = static_cast<uInt>(std::min(bytes.size(), kPiece));
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

std::string_view Text(std::span<const std::byte> bytes, size_t at, size_t length) {
  const std::string_view field(reinterpret_cast<const char*>(bytes.data()) + at, length);
  return field.substr(0, std::min(field.find('\0'), field.size()));
}

// Octal digits, optionally between spaces.
size_t Octal(std::string_view field, std::string_view where) {
  size_t value = 0;
  for (const char c : field) {
    if (c == ' ') continue;
    Require(c >= '0' && c <= '7' && value >> 56 == 0, "{}: no tar archive: a size that is no octal number", where);
    value = value * 8 + static_cast<size_t>(c - '0');
  }
  return value;
}

bool ChecksumFits(std::span<const std::byte> header, std::string_view where) {
  constexpr size_t kAt = 148, kLength = 8;
  size_t sum = kLength * ' ';  // the field itself counts as spaces
  for (size_t i = 0; i < kBlock; ++i) sum += i >= kAt && i < kAt + kLength ? 0 : static_cast<size_t>(header[i]);
  return sum == Octal(Text(header, kAt, kLength), where);
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
      ended = inflater.Next(bytes, std::min(kPiece, max_bytes + 1 - text.size()), where, &text);
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

PlainFile::PlainFile(const std::filesystem::path& path, size_t max_bytes) : path_(path), file_(path) {
  unpacked_ = IsGzip(file_.bytes());
  if (!unpacked_) return;
  try {
    text_ = Gunzip(file_.bytes(), max_bytes, path.string());
  } catch (const Error&) {
    RequireUnchanged();  // its message is the better one
    throw;
  }
  RequireUnchanged();
}

std::vector<ArchiveMember> ListTar(std::span<const std::byte> bytes, std::string_view where) {
  std::vector<ArchiveMember> members;
  while (bytes.size() >= kBlock && bytes[0] != std::byte{0}) {  // a block of zeros ends the archive
    const std::span<const std::byte> header = bytes.first(kBlock);
    Require(ChecksumFits(header, where), "{}: no tar archive, or a damaged one", where);
    const size_t size = Octal(Text(header, 124, 12), where);
    bytes = bytes.subspan(kBlock);
    Require(size <= bytes.size(), "{}: the archive ends too early", where);
    const char kind = static_cast<char>(header[156]);
    if (kind == '0' || kind == '\0') members.push_back({std::string(Text(header, 0, 100)), bytes.first(size)});
    bytes = bytes.subspan(std::min(bytes.size(), (size + kBlock - 1) / kBlock * kBlock));
  }
  Require(!members.empty(), "{}: no tar archive with files in it", where);
  return members;
}

}  // namespace qkv::train
