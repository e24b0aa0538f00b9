// Bytes of files that may be compressed by gzip, and the files inside of a tar archive. Internal to qkv/train.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/core/file.h"

namespace qkv::train {

/// Bytes that a compressed file may unpack to, unless its format says how many there are: three times CIFAR's archives.
inline constexpr size_t kMostUnpacked = size_t{512} << 20;

/// A file's bytes, unpacked where they are gzip's. Throws Error when they cannot be read, or are more than `max_bytes`
/// or than may be used of memory (core/memory.h); the length that a packed file tells is held against both first.
class PlainFile {
 public:
  explicit PlainFile(const std::filesystem::path& path, size_t max_bytes = kMostUnpacked);
  std::span<const std::byte> bytes() const { return unpacked_ ? std::as_bytes(std::span(text_)) : file_.bytes(); }
  /// Throws Error that names the file when it was changed since it was opened. To be asked after reading `bytes`.
  void RequireUnchanged() const { file_.RequireUnchanged(path_.native()); }

 private:
  std::filesystem::path path_;
  MappedFile file_;
  std::string text_;
  bool unpacked_ = false;
};

bool IsGzip(std::span<const std::byte> bytes);
/// Throws Error that begins with `where` for damaged data, for what ends too early, and for more than `max_bytes`, or
/// than may be used of memory.
std::string Gunzip(std::span<const std::byte> bytes, size_t max_bytes, std::string_view where);
/// The first bytes, `count` or as many as there are. Throws Error for damaged data.
std::string GunzipFirst(std::span<const std::byte> bytes, size_t count, std::string_view where);

struct ArchiveMember {
  std::string name;  // within its folders
  std::span<const std::byte> bytes;
};

/// The regular files of a tar archive (POSIX.1-1988; of what came later, nothing that data sets use). Throws Error that
/// begins with `where` when it is none or ends too early.
std::vector<ArchiveMember> ListTar(std::span<const std::byte> bytes, std::string_view where);

}  // namespace qkv::train
