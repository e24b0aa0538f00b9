// Layout of the cached bytes:
//
//   Header | pixels, one image after the other | ImageRecord for every file | why files could not be read, a line each
//   | Footer
//
// Numbers have the machine's byte order: a cache is not a format for exchange.
#include "qkv/train/data/image_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "qkv/core/error.h"
#include "qkv/core/file.h"

namespace qkv::train {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "qkv images 1\n";
constexpr std::string_view kEnding = ".images";
constexpr std::array<std::string_view, 4> kSplits = {"train", "val", "test", "all"};

struct Header {
  char magic[16];
  uint64_t key;
};
struct Footer {
  uint64_t records, offset, reasons;  // number of records; where they begin; bytes of the reasons that follow them
  uint64_t key;                       // repeated: proves that the file is complete
};

// Limit of an image's sides, so that a damaged cache is detected before they are multiplied.
constexpr int64_t kMaxSide = int64_t{1} << 24;

template <typename T>
void WriteValue(FileSink& sink, const T& value) {
  sink.Write(std::as_bytes(std::span(&value, 1)));
}

bool Fits(const ImageRecord& record, const ImageIndexLimits& limits, uint64_t end) {
  if (record.height == 0) return true;
  if (record.height < 0 || record.height > kMaxSide || record.width < 1 || record.width > kMaxSide) return false;
  if (limits.height > 0 && (record.height != limits.height || record.width != limits.width)) return false;
  const auto pixels = static_cast<uint64_t>(record.height * record.width * limits.channels);
  return record.offset >= sizeof(Header) && record.offset <= end && pixels <= end - record.offset;
}

// True for the names that ImageCacheName makes.
bool IsCacheName(std::string_view name) {
  constexpr size_t kDigits = 16;
  if (!name.ends_with(kEnding)) return false;
  name.remove_suffix(kEnding.size());
  if (name.size() < kDigits + 1 || name[name.size() - kDigits - 1] != '-') return false;
  const std::string_view digits = name.substr(name.size() - kDigits);
  return digits.find_first_not_of("0123456789abcdef") == digits.npos &&
         std::ranges::find(kSplits, name.substr(0, name.size() - kDigits - 1)) != kSplits.end();
}

// True for the name of a file that was still being written.
bool IsLeftover(std::string_view name) {
  const size_t end = name.find(kEnding);
  if (end == name.npos) return false;
  const std::string_view file = name.substr(0, end + kEnding.size());
  return IsCacheName(file) && IsTemporaryNameFor(name, file);
}

struct CacheFile {
  fs::path path;
  double bytes = 0;
  fs::file_time_type written;
};

// The cache's files; `leftovers`: the unfinished ones.
std::vector<CacheFile> FilesIn(const fs::path& folder, bool leftovers) {
  std::vector<CacheFile> files;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    std::error_code ignored;
    if (!(leftovers ? IsLeftover(name) : IsCacheName(name)) || entry->is_symlink(ignored)) continue;
    if (!entry->is_regular_file(ignored)) continue;
    const uintmax_t bytes = entry->file_size(ignored);
    if (!ignored) files.push_back({entry->path(), static_cast<double>(bytes), entry->last_write_time(ignored)});
  }
  return files;
}

double TotalBytes(const std::vector<CacheFile>& files) {
  double sum = 0;
  for (const CacheFile& file : files) sum += file.bytes;
  return sum;
}

// Free bytes of the folder's file system.
double FreeSpace(const fs::path& folder) {
  std::error_code error;
  const fs::space_info space = fs::space(folder, error);
  return error ? std::numeric_limits<double>::infinity() : static_cast<double>(space.available);
}

}  // namespace

uint64_t FirstPixel() { return sizeof(Header); }

void BeginImages(FileSink& sink, uint64_t key) {
  Header header{.magic = {}, .key = key};
  kMagic.copy(header.magic, kMagic.size());
  WriteValue(sink, header);
}

void FinishImages(FileSink& sink, uint64_t key, const ImageIndex& index, uint64_t end) {
  sink.Write(std::as_bytes(std::span(index.records)));
  uint64_t reasons = 0;
  for (const std::string& reason : index.reasons) {
    sink.Write(reason + "\n");
    reasons += reason.size() + 1;
  }
  WriteValue(sink, Footer{index.records.size(), end, reasons, key});
}

std::optional<ImageIndex> ParseImages(std::span<const std::byte> bytes, const ImageIndexLimits& limits) {
  if (bytes.size() < sizeof(Header) + sizeof(Footer)) return {};
  const auto header = ReadValue<Header>(bytes, 0);
  const auto footer = ReadValue<Footer>(bytes, bytes.size() - sizeof(Footer));
  const size_t end = bytes.size() - sizeof(Footer);
  if (std::string_view(header.magic, kMagic.size()) != kMagic || header.key != limits.key || footer.key != limits.key)
    return {};
  // In this order no difference is negative and no product overflows.
  if (footer.records != limits.files || footer.offset > end || footer.reasons > end - footer.offset) return {};
  const size_t table = end - footer.offset - footer.reasons;
  if (table % sizeof(ImageRecord) != 0 || table / sizeof(ImageRecord) != footer.records) return {};
  ImageIndex index;
  index.records.resize(footer.records);
  if (table > 0) std::memcpy(index.records.data(), bytes.data() + footer.offset, table);
  for (const ImageRecord& record : index.records) {
    if (!Fits(record, limits, footer.offset)) return {};
  }
  std::string_view reasons(reinterpret_cast<const char*>(bytes.data()) + end - footer.reasons, footer.reasons);
  while (!reasons.empty()) {
    const std::string_view line = reasons.substr(0, reasons.find('\n'));
    index.reasons.emplace_back(line);
    reasons.remove_prefix(std::min(reasons.size(), line.size() + 1));
  }
  return index;
}

std::string ImageCacheName(std::string_view split, uint64_t hash) {
  return fmt::format("{}-{:016x}{}", split, hash, kEnding);
}

ImageCacheFolder::ImageCacheFolder(const fs::path& path, double most, double expected) {
  std::error_code error;
  fs::create_directories(path, error);
  Require(!error, "cannot create folder {}: {}", path.string(), error.message());
  lock_ = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  RequireCall(lock_ >= 0, "open", path);
  // A writer holds the lock shared, so getting it exclusively proves that no process is writing.
  if (::flock(lock_, LOCK_EX | LOCK_NB) == 0) {
    std::error_code ignored;
    for (const CacheFile& left : FilesIn(path, /*leftovers=*/true)) fs::remove(left.path, ignored);
    std::vector<CacheFile> files = FilesIn(path, /*leftovers=*/false);
    std::ranges::sort(files, std::greater(), &CacheFile::written);
    double sum = TotalBytes(files);
    // Evict nothing if the new file would not fit even then.
    const bool fits = expected <= most && expected <= (FreeSpace(path) + sum) / 2;
    while (most > 0 && fits && !files.empty() && sum + expected > most) {
      fs::remove(files.back().path, ignored);
      sum -= files.back().bytes;
      files.pop_back();
    }
  }
  ::flock(lock_, LOCK_SH | LOCK_NB);
  const double left = FreeSpace(path);
  room_ = most > 0 ? std::min(most - TotalBytes(FilesIn(path, false)) - TotalBytes(FilesIn(path, true)), left / 2)
                   : 0.9 * left;
}

ImageCacheFolder::~ImageCacheFolder() { ::close(lock_); }

}  // namespace qkv::train
