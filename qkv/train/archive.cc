#include "qkv/train/archive.h"

#include <zlib.h>

#include <algorithm>
#include <cstdint>

#include "qkv/core/error.h"

namespace qkv::train {
namespace {

constexpr size_t kBlock = 512;  // tar's

// zlib's state, given back whatever happens.
struct Inflater {
  z_stream stream{};
  Inflater() { Require(inflateInit2(&stream, 15 + 16) == Z_OK, "gzip: no memory"); }  // 16: with gzip's header
  ~Inflater() { inflateEnd(&stream); }
};

std::string_view Text(std::span<const std::byte> bytes, size_t at, size_t length) {
  const std::string_view field(reinterpret_cast<const char*>(bytes.data()) + at, length);
  return field.substr(0, std::min(field.find('\0'), field.size()));
}

// Octal digits, perhaps between spaces.
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

std::string Gunzip(std::span<const std::byte> bytes, size_t max_bytes, std::string_view where) {
  std::string text;
  while (!bytes.empty()) {  // several members may follow each other
    Inflater inflater;
    z_stream& stream = inflater.stream;
    for (int status = Z_OK; status != Z_STREAM_END;) {
      constexpr size_t kPiece = size_t{1} << 20;
      const size_t end = text.size();
      text.resize(end + std::min(kPiece, max_bytes + 1 - end));
      const auto in = static_cast<uInt>(std::min(bytes.size(), kPiece));
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(bytes.data()));
      stream.avail_in = in;
      stream.next_out = reinterpret_cast<Bytef*>(text.data() + end);
      stream.avail_out = static_cast<uInt>(text.size() - end);
      status = inflate(&stream, Z_NO_FLUSH);
      Require(status == Z_OK || status == Z_STREAM_END || status == Z_BUF_ERROR, "{}: damaged gzip data{}{}", where,
              stream.msg ? ": " : "", stream.msg ? stream.msg : "");
      const bool idle = stream.avail_in == in && stream.avail_out == text.size() - end;
      Require(status == Z_STREAM_END || !idle || !bytes.empty(), "{}: the gzip data ends too early", where);
      text.resize(text.size() - stream.avail_out);
      bytes = bytes.subspan(in - stream.avail_in);
      Require(text.size() <= max_bytes, "{}: unpacks to more than {} bytes", where, max_bytes);
    }
  }
  return text;
}

PlainFile::PlainFile(const std::filesystem::path& path, size_t max_bytes) : file_(path) {
  const std::span<const std::byte> bytes = file_.bytes();
  unpacked_ = bytes.size() >= 2 && bytes[0] == std::byte{0x1F} && bytes[1] == std::byte{0x8B};
  if (unpacked_) text_ = Gunzip(bytes, max_bytes, path.string());
}

std::vector<ArchiveMember> ListTar(std::span<const std::byte> bytes, std::string_view where) {
  std::vector<ArchiveMember> members;
  while (bytes.size() >= kBlock && bytes[0] != std::byte{0}) {  // the end is a block of zeros
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
