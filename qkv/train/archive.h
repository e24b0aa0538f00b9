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

/// A file's bytes, unpacked where they are gzip's. Throws Error when they cannot be read, or are more than `max_bytes`.
class PlainFile {
 public:
  explicit PlainFile(const std::filesystem::path& path, size_t max_bytes = size_t{1} << 32);
  std::span<const std::byte> bytes() const { return unpacked_ ? std::as_bytes(std::span(text_)) : file_.bytes(); }

 private:
  MappedFile file_;
  std::string text_;
  bool unpacked_ = false;
};

/// Throws Error that begins with `where` for damaged data, for what ends too early, and for more than `max_bytes`.
std::string Gunzip(std::span<const std::byte> bytes, size_t max_bytes, std::string_view where);

struct ArchiveMember {
  std::string name;  // within its folders
  std::span<const std::byte> bytes;
};

/// The regular files of a tar archive (POSIX.1-1988; of what came later, nothing that data sets use). Throws Error that
/// begins with `where` when it is none or ends too early.
std::vector<ArchiveMember> ListTar(std::span<const std::byte> bytes, std::string_view where);

}  // namespace qkv::train
