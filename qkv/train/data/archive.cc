#include "qkv/train/data/archive.h"

#include <algorithm>
#include <cstdint>

#include "qkv/core/error.h"
#include "qkv/core/memory.h"

namespace qkv::train {
namespace {

constexpr size_t kBlock = 512;  // tar's

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

PlainFile::PlainFile(const std::filesystem::path& path, size_t max_bytes) : path_(path), file_(path) {
  unpacked_ = io::IsGzip(file_.bytes());
  if (!unpacked_) return;
  try {
    text_ = io::Gunzip(file_.bytes(), max_bytes, path.string());
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
