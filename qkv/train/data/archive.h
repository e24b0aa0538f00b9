// Reads files that may be gzip-compressed, and lists the members of tar archives. Internal to qkv/train.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/core/file.h"
#include "qkv/io/gzip.h"

namespace qkv::train {

/// Greatest unpacked size of a file whose format does not give its length: three times the size of CIFAR's archives.
inline constexpr size_t kMostUnpacked = size_t{512} << 20;

/// The bytes of a file, decompressed if it is gzip. Throws Error if the file cannot be read, or if its length exceeds
/// `max_bytes` or the memory limit (core/memory.h). The length that a gzip file declares is checked against both limits
/// first.
class PlainFile {
 public:
  explicit PlainFile(const std::filesystem::path& path, size_t max_bytes = kMostUnpacked);
  std::span<const std::byte> bytes() const { return unpacked_ ? std::as_bytes(std::span(text_)) : file_.bytes(); }
  /// Throws Error, with the file's name, if the file was changed since it was opened. Call it after reading `bytes`.
  void RequireUnchanged() const { file_.RequireUnchanged(path_.native()); }

 private:
  std::filesystem::path path_;
  MappedFile file_;
  std::string text_;
  bool unpacked_ = false;
};

struct ArchiveMember {
  std::string name;  // path within the archive
  std::span<const std::byte> bytes;
};

/// Lists the regular files of a tar archive (POSIX.1-1988; later extensions are not supported, no data set here uses
/// them). Throws Error, prefixed with `where`, if the bytes are not a tar archive or end too early.
std::vector<ArchiveMember> ListTar(std::span<const std::byte> bytes, std::string_view where);

}  // namespace qkv::train
