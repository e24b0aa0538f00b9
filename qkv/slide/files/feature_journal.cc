#include "qkv/slide/files/feature_journal.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include "qkv/core/error.h"
#include "qkv/core/file.h"
#include "qkv/core/memory.h"
#include "qkv/core/work.h"
#include "qkv/io/crc32.h"
#include "qkv/io/little_endian.h"

namespace qkv::slide {
namespace {

static_assert(std::endian::native == std::endian::little);

// A record: its kind, the tile, the bytes of the payload, the payload, and a CRC-32 of all of these.
enum RecordKind : uint32_t { kVectorRecord = 0x31564B51, kDamagedRecord = 0x31444B51 };  // "QKV1", "QKD1"
constexpr size_t kRecordHead = 12, kRecordSum = 4, kMostReason = 4096, kMostWidth = size_t{1} << 20;

std::string JournalHeader(const io::Json& what, int64_t tiles) {
  const io::Json header = {{"qkv_journal", 1}, {"tiles", tiles}, {"what", what}};
  return header.dump(-1, ' ', false, io::Json::error_handler_t::replace) + "\n";
}

template <typename Call>
auto Restarted(const Call& call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

}  // namespace

FeatureJournal::FeatureJournal(std::filesystem::path path, const io::Json& what, int64_t tiles,
                               const std::function<void(const std::string&)>& note)
    : path_(std::move(path)) {
  Require(tiles >= 0 && tiles <= std::numeric_limits<uint32_t>::max(), "{}: expected 0 to 2^32 - 1 tiles, got {}",
          path_.string(), tiles);
  RequireMemory(sizeof(uint64_t) * static_cast<double>(tiles), path_.string());
  vectors_.resize(static_cast<size_t>(tiles));
  descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  RequireCall(descriptor_ >= 0, "open", path_);
  try {
    // A file system without locks is no error.
    const bool locked = Restarted([&] { return ::flock(descriptor_, LOCK_EX | LOCK_NB); }) == 0 || errno != EWOULDBLOCK;
    Require(locked, "{}: another process embeds this slide now; wait for it, or end it", path_.string());
    const std::string header = JournalHeader(what, tiles);
    bool empty = false, known = false;
    {
      const MappedFile file(path_);
      empty = file.bytes().empty();
      known =
          file.bytes().size() >= header.size() && std::memcmp(file.bytes().data(), header.data(), header.size()) == 0;
    }
    if (known) {
      Load(header.size());
    } else {
      if (!empty && note) {
        note(FormatShown("{}: its vectors were made with other settings, of another file or another grid: begun anew",
                         path_.string()));
      }
      Begin(header);
    }
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

FeatureJournal::~FeatureJournal() { ::close(descriptor_); }

void FeatureJournal::Begin(const std::string& header) {
  RequireCall(::ftruncate(descriptor_, 0) == 0, "write", path_);
  const ssize_t written = Restarted([&] { return ::pwrite(descriptor_, header.data(), header.size(), 0); });
  if (written >= 0 && static_cast<size_t>(written) < header.size()) errno = ENOSPC;
  RequireCall(written == static_cast<ssize_t>(header.size()), "write", path_);
  end_ = header.size();
}

void FeatureJournal::Load(size_t begin) {
  end_ = begin;
  const MappedFile file(path_);
  while (true) {
    const std::span<const std::byte> rest = file.bytes().subspan(end_);
    if (rest.size() < kRecordHead + kRecordSum) break;
    const auto kind = io::LittleEndian<uint32_t>(rest, 0), tile = io::LittleEndian<uint32_t>(rest, 4),
               length = io::LittleEndian<uint32_t>(rest, 8);
    if (tile >= vectors_.size() || length > rest.size() - kRecordHead - kRecordSum) break;
    if (io::ExtendCrc32(0, rest.first(kRecordHead + length)) !=
        io::LittleEndian<uint32_t>(rest, kRecordHead + length)) {
      break;
    }
    Spend(static_cast<int64_t>(length) / 16 + 16);
    const std::span<const std::byte> payload = rest.subspan(kRecordHead, length);
    if (kind == kDamagedRecord && length <= kMostReason) {
      damaged_[tile] = std::string(reinterpret_cast<const char*>(payload.data()), payload.size());
    } else if (kind == kVectorRecord && length > 0 && length % sizeof(float) == 0 &&
               (width_ == 0 || length == width_ * sizeof(float))) {
      width_ = length / sizeof(float);
      vectors_[tile] = end_ + kRecordHead;
    } else {
      break;
    }
    end_ += kRecordHead + length + kRecordSum;
  }
  file.RequireUnchanged(path_.string());
  if (end_ < file.bytes().size()) {
    RequireCall(::ftruncate(descriptor_, static_cast<off_t>(end_)) == 0, "write", path_);
  }
}

void FeatureJournal::Append(uint32_t kind, size_t tile, std::span<const std::byte> payload) {
  Require(tile < vectors_.size(), "{}: expected a tile below {}, got {}", path_.string(), vectors_.size(), tile);
  const std::array<uint32_t, 3> head = {kind, static_cast<uint32_t>(tile), static_cast<uint32_t>(payload.size())};
  static_assert(sizeof(head) == kRecordHead);
  const std::span<const std::byte> head_bytes = std::as_bytes(std::span(head));
  std::vector<std::byte> record;
  record.reserve(kRecordHead + payload.size() + kRecordSum);
  record.insert(record.end(), head_bytes.begin(), head_bytes.end());
  record.insert(record.end(), payload.begin(), payload.end());
  const std::array<uint32_t, 1> sum = {io::ExtendCrc32(0, record)};
  const std::span<const std::byte> sum_bytes = std::as_bytes(std::span(sum));
  record.insert(record.end(), sum_bytes.begin(), sum_bytes.end());
  // What a failed call wrote is behind end_: the next record takes its place, or Load drops it.
  size_t done = 0;
  while (done < record.size()) {
    const ssize_t written = Restarted([&] {
      return ::pwrite(descriptor_, record.data() + done, record.size() - done, static_cast<off_t>(end_ + done));
    });
    RequireCall(written > 0, "write", path_);
    done += static_cast<size_t>(written);
  }
  end_ += record.size();
}

bool FeatureJournal::Has(size_t tile) const {
  const std::lock_guard held(mutex_);
  return tile < vectors_.size() && (vectors_[tile] != 0 || damaged_.contains(tile));
}

void FeatureJournal::Add(size_t tile, std::span<const float> vector) {
  const std::lock_guard held(mutex_);
  Require(!vector.empty() && vector.size() <= kMostWidth && (width_ == 0 || vector.size() == width_),
          "{}: expected a vector of {} numbers, got {}", path_.string(), width_ == 0 ? kMostWidth : width_,
          vector.size());
  const uint64_t begin = end_ + kRecordHead;
  Append(kVectorRecord, tile, std::as_bytes(vector));
  width_ = vector.size();
  vectors_[tile] = begin;
}

void FeatureJournal::AddDamaged(size_t tile, const std::string& why) {
  const std::lock_guard held(mutex_);
  const std::string reason = why.substr(0, kMostReason);
  Append(kDamagedRecord, tile, std::as_bytes(std::span(reason)));
  damaged_[tile] = reason;
}

FeatureJournal::Rows FeatureJournal::Read() const {
  const std::lock_guard held(mutex_);
  Rows rows;
  for (size_t tile = 0; tile < vectors_.size(); ++tile) {
    if (vectors_[tile] != 0) rows.tiles.push_back(tile);
  }
  RequireMemory(sizeof(float) * static_cast<double>(width_) * static_cast<double>(rows.tiles.size()), path_.string());
  rows.features = Tensor<float>::Uninitialised({static_cast<int64_t>(rows.tiles.size()), static_cast<int64_t>(width_)});
  const size_t bytes = sizeof(float) * width_;
  std::byte* to = reinterpret_cast<std::byte*>(rows.features.data());
  for (const size_t tile : rows.tiles) {
    Spend(static_cast<int64_t>(bytes) / 16);
    for (size_t done = 0; done < bytes;) {
      const ssize_t read = Restarted(
          [&] { return ::pread(descriptor_, to + done, bytes - done, static_cast<off_t>(vectors_[tile] + done)); });
      if (read == 0) errno = EIO;  // shorter than it was
      RequireCall(read > 0, "read", path_);
      done += static_cast<size_t>(read);
    }
    to += bytes;
  }
  return rows;
}

void FeatureJournal::Remove() { RequireCall(::unlink(path_.c_str()) == 0, "remove", path_); }

}  // namespace qkv::slide
