#include "qkv/io/zip.h"

#include <zlib.h>

#include <algorithm>
#include <utility>

#include "qkv/core/error.h"
#include "qkv/core/memory.h"
#include "qkv/io/crc32.h"
#include "qkv/io/json.h"
#include "qkv/io/little_endian.h"

namespace qkv::io {
namespace {

using Bytes = std::span<const std::byte>;

// Records of the format (PKWARE's APPNOTE, 4.3): signatures and lengths without their variable parts.
constexpr uint32_t kLocal = 0x04034b50, kCentral = 0x02014b50, kEnd = 0x06054b50, kEnd64 = 0x06064b50,
                   kLocator64 = 0x07064b50;
constexpr size_t kLocalBytes = 30, kCentralBytes = 46, kEndBytes = 22, kEnd64Bytes = 56, kLocator64Bytes = 20;
constexpr size_t kMaxComment = 0xFFFF;
constexpr uint16_t kExtra64 = 1, kEncrypted = 1, kStored = 0, kDeflated = 8;
constexpr uint32_t kIn64 = 0xFFFFFFFF;  // the value is in the zip64 extension
constexpr size_t kMaxZipEntries = size_t{1} << 18;
constexpr uint64_t kMostTimes = 1032;  // DEFLATE expands no more

bool Fits(Bytes bytes, uint64_t at, uint64_t length) { return at <= bytes.size() && length <= bytes.size() - at; }

bool HasSignature(Bytes bytes, uint64_t at, size_t length, uint32_t signature) {
  return Fits(bytes, at, length) && LittleEndian<uint32_t>(bytes, at) == signature;
}

// Where the directory of the entries is.
struct ZipDirectory {
  uint64_t begin = 0, size = 0, entries = 0;
  uint64_t end = 0;  // of what may belong to the directory: the beginning of the end records
};

ZipDirectory FindDirectory(Bytes bytes, std::string_view where) {
  Require(bytes.size() >= kEndBytes, "{}: {} bytes, too short for a zip archive", where, bytes.size());
  const size_t last = bytes.size() - kEndBytes, first = last - std::min(last, kMaxComment);
  size_t end = last + 1;
  for (size_t at = last + 1; at-- > first && end > last;) {
    const bool found = HasSignature(bytes, at, kEndBytes, kEnd) && LittleEndian<uint16_t>(bytes, at + 20) == last - at;
    if (found) end = at;
  }
  Require(end <= last, "{}: the zip archive has no directory at its end: it is cut off; download or copy it again",
          where);
  Require(LittleEndian<uint16_t>(bytes, end + 4) == 0 && LittleEndian<uint16_t>(bytes, end + 6) == 0 &&
              LittleEndian<uint16_t>(bytes, end + 8) == LittleEndian<uint16_t>(bytes, end + 10),
          "{}: the zip archive is one of several volumes", where);
  ZipDirectory found{LittleEndian<uint32_t>(bytes, end + 16), LittleEndian<uint32_t>(bytes, end + 12),
                     LittleEndian<uint16_t>(bytes, end + 10), end};
  if (end >= kLocator64Bytes && HasSignature(bytes, end - kLocator64Bytes, kLocator64Bytes, kLocator64)) {
    const uint64_t at = LittleEndian<uint64_t>(bytes, end - kLocator64Bytes + 8);
    Require(HasSignature(bytes, at, kEnd64Bytes, kEnd64) && at <= end - kLocator64Bytes - kEnd64Bytes,
            "{}: the zip archive's end record of 64 bits is not where it should be", where);
    found = {LittleEndian<uint64_t>(bytes, at + 48), LittleEndian<uint64_t>(bytes, at + 40),
             LittleEndian<uint64_t>(bytes, at + 32), at};
    Require(LittleEndian<uint64_t>(bytes, at + 24) == found.entries, "{}: the zip archive is one of several volumes",
            where);
  }
  Require(found.begin <= found.end && found.size <= found.end - found.begin,
          "{}: the zip archive's directory, {} bytes at byte {}, does not fit in the file", where, found.size,
          found.begin);
  Require(found.entries <= kMaxZipEntries && found.entries <= found.size / kCentralBytes,
          "{}: a zip archive of {} entries in a directory of {} bytes; at most {} are allowed", where, found.entries,
          found.size, kMaxZipEntries);
  return found;
}

// Replaces the values that are 0xFFFFFFFF by those of the zip64 extension, in this order.
void ReadExtra64(Bytes extra, uint64_t* size, uint64_t* packed, uint64_t* offset, std::string_view where) {
  while (extra.size() >= 4) {
    const uint16_t id = LittleEndian<uint16_t>(extra, 0), length = LittleEndian<uint16_t>(extra, 2);
    if (length > extra.size() - 4) return;  // other extensions are not ours to check
    if (id == kExtra64) {
      size_t at = 0;
      for (uint64_t* value : {size, packed, offset}) {
        if (*value != kIn64) continue;
        Require(at + 8 <= length, "{}: a zip entry's extension of 64 bits is too short", where);
        *value = LittleEndian<uint64_t>(extra, 4 + at);
        at += 8;
      }
      return;
    }
    extra = extra.subspan(4 + size_t{length});
  }
}

void CheckZipName(std::string_view name, std::string_view where) {
  bool ok = !name.empty() && name.front() != '/' && name.find_first_of(std::string_view("\\\0", 2)) == name.npos;
  for (size_t begin = 0; ok && begin <= name.size();) {
    const size_t end = std::min(name.find('/', begin), name.size());
    ok = name.substr(begin, end - begin) != "..";
    begin = end + 1;
  }
  Require(ok, "{}: the zip archive has an entry {}, which is no name within a folder", where, Quoted(name));
}

struct ZipPlace {
  uint64_t begin = 0, end = 0;  // of the local header and the data
};

// Finds the data behind the local header, which repeats the name.
ZipPlace FindData(Bytes bytes, const ZipDirectory& directory, uint64_t offset, uint64_t packed, std::string_view where,
                  ZipEntry* entry) {
  Require(offset < directory.begin && HasSignature(bytes, offset, kLocalBytes, kLocal),
          "{}: entry {} of the zip archive has no header at byte {}", where, Quoted(entry->name), offset);
  const uint64_t name = LittleEndian<uint16_t>(bytes, offset + 26), extra = LittleEndian<uint16_t>(bytes, offset + 28);
  const uint64_t begin = offset + kLocalBytes + name + extra;
  Require(begin <= directory.begin && packed <= directory.begin - begin,
          "{}: entry {} of the zip archive, {} bytes at byte {}, does not fit in the file", where, Quoted(entry->name),
          packed, begin);
  const std::string_view local(reinterpret_cast<const char*>(bytes.data()) + offset + kLocalBytes, name);
  Require(local == entry->name, "{}: entry {} of the zip archive is called {} in its header", where,
          Quoted(entry->name), Quoted(local));
  entry->bytes = bytes.subspan(begin, packed);
  return {offset, begin + packed};
}

// Reads the entry at `at` of the directory, and moves `at` to the next.
std::pair<ZipEntry, ZipPlace> ReadEntry(Bytes bytes, const ZipDirectory& directory, uint64_t* at,
                                        std::string_view where) {
  const uint64_t left = directory.begin + directory.size - *at;
  Require(left >= kCentralBytes && LittleEndian<uint32_t>(bytes, *at) == kCentral,
          "{}: the zip archive's directory is damaged at byte {}", where, *at);
  const auto flags = LittleEndian<uint16_t>(bytes, *at + 8), method = LittleEndian<uint16_t>(bytes, *at + 10);
  const uint64_t name = LittleEndian<uint16_t>(bytes, *at + 28), extra = LittleEndian<uint16_t>(bytes, *at + 30),
                 comment = LittleEndian<uint16_t>(bytes, *at + 32);
  Require(name + extra + comment <= left - kCentralBytes, "{}: the zip archive's directory is damaged at byte {}",
          where, *at);
  ZipEntry entry;
  entry.name.assign(reinterpret_cast<const char*>(bytes.data()) + *at + kCentralBytes, name);
  CheckZipName(entry.name, where);
  Require((flags & kEncrypted) == 0, "{}: entry {} of the zip archive is encrypted", where, Quoted(entry.name));
  Require(method == kStored || method == kDeflated,
          "{}: entry {} of the zip archive is compressed by method {}, "
          "expected 0 (stored) or 8 (deflate)",
          where, Quoted(entry.name), method);
  entry.deflated = method == kDeflated;
  entry.crc = LittleEndian<uint32_t>(bytes, *at + 16);
  uint64_t packed = LittleEndian<uint32_t>(bytes, *at + 20), offset = LittleEndian<uint32_t>(bytes, *at + 42);
  entry.size = LittleEndian<uint32_t>(bytes, *at + 24);
  ReadExtra64(bytes.subspan(*at + kCentralBytes + name, extra), &entry.size, &packed, &offset, where);
  const ZipPlace place = FindData(bytes, directory, offset, packed, where, &entry);
  Require(entry.deflated ? entry.size / kMostTimes <= packed : entry.size == packed,
          "{}: entry {} of the zip archive cannot have {} bytes: it is stored in {}", where, Quoted(entry.name),
          entry.size, packed);
  *at += kCentralBytes + name + extra + comment;
  return {std::move(entry), place};
}

}  // namespace

bool IsZip(Bytes bytes) {
  return bytes.size() >= 4 && (LittleEndian<uint32_t>(bytes, 0) == kLocal || LittleEndian<uint32_t>(bytes, 0) == kEnd);
}

std::vector<ZipEntry> ListZip(Bytes bytes, std::string_view where) {
  const ZipDirectory directory = FindDirectory(bytes, where);
  std::vector<ZipEntry> entries;
  std::vector<ZipPlace> places;
  entries.reserve(directory.entries);
  places.reserve(directory.entries);
  uint64_t at = directory.begin;
  for (uint64_t i = 0; i < directory.entries; ++i) {
    auto [entry, place] = ReadEntry(bytes, directory, &at, where);
    places.push_back(place);
    if (!entry.name.ends_with('/')) entries.push_back(std::move(entry));
  }
  std::ranges::sort(places, {}, &ZipPlace::begin);
  for (size_t i = 1; i < places.size(); ++i) {
    Require(places[i].begin >= places[i - 1].end, "{}: entries of the zip archive overlap at byte {}", where,
            places[i].begin);
  }
  std::ranges::sort(entries, {}, &ZipEntry::name);
  const auto twin = std::ranges::adjacent_find(entries, {}, &ZipEntry::name);
  if (twin != entries.end()) Fail("{}: the zip archive has two entries {}", where, Quoted(twin->name));
  return entries;
}

const ZipEntry* FindEntry(std::span<const ZipEntry> sorted, std::string_view name) {
  const auto found =
      std::ranges::lower_bound(sorted, name, {}, [](const ZipEntry& e) -> std::string_view { return e.name; });
  return found != sorted.end() && found->name == name ? &*found : nullptr;
}

std::vector<std::byte> Unpack(const ZipEntry& entry, std::string_view where) {
  RequireMemory(static_cast<double>(entry.size), fmt::format("{}: entry {}", Printable(where), Quoted(entry.name)));
  std::vector<std::byte> unpacked(entry.size);
  z_stream stream{};
  Require(inflateInit2(&stream, -MAX_WBITS) == Z_OK, "{}: zlib has no memory", where);  // negative: without a header
  Bytes in = entry.bytes;
  std::span<std::byte> out = unpacked;
  std::byte beyond{};  // zlib wants room to find the end even if nothing comes any more
  int status = Z_OK;
  while (status == Z_OK) {
    constexpr size_t kPiece = size_t{1} << 30;  // zlib counts in 32 bits
    const std::span<std::byte> room = out.empty() ? std::span(&beyond, 1) : out.first(std::min(out.size(), kPiece));
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(in.data()));
    stream.avail_in = static_cast<uInt>(std::min(in.size(), kPiece));
    stream.next_out = reinterpret_cast<Bytef*>(room.data());
    stream.avail_out = static_cast<uInt>(room.size());
    const size_t given = stream.avail_in;
    status = inflate(&stream, Z_NO_FLUSH);
    in = in.subspan(given - stream.avail_in);
    const size_t made = room.size() - stream.avail_out;
    if (out.empty() && made > 0) status = Z_DATA_ERROR;  // longer than stated
    if (!out.empty()) out = out.subspan(made);
  }
  inflateEnd(&stream);
  Require(status == Z_STREAM_END && out.empty() && in.empty() && Crc32(unpacked) == entry.crc,
          "{}: entry {} of the zip archive is damaged; download or copy the file again", where, Quoted(entry.name));
  return unpacked;
}

}  // namespace qkv::io
