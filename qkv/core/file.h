// Files read by memory map, and written whole or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace qkv {

/// Tells whether a file is still the one that was read: any change to its bytes moves `changed`, which, unlike the time
/// of modification, no program can set back.
struct FileStamp {
  uint64_t device = 0, inode = 0, size = 0;
  int64_t modified = 0, changed = 0;  // nanoseconds since 1970

  bool operator==(const FileStamp&) const = default;
};

/// Throws Error when there is no such file.
FileStamp StampOf(const std::filesystem::path& path);

/// A file's bytes, mapped read-only. Movable; unmapped on destruction. Allocates nothing.
class MappedFile {
 public:
  MappedFile() = default;
  /// Throws Error with the path and the system's reason when it is no readable regular file.
  explicit MappedFile(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }
  /// Of the moment when it was opened.
  const FileStamp& stamp() const { return stamp_; }

 private:
  std::span<const std::byte> bytes_;
  FileStamp stamp_;
};

/// Gives back the memory of the whole pages among `part`, which must belong to a MappedFile; the next access reads the
/// file again.
void ReleasePages(std::span<const std::byte> part);

/// The whole file. Throws Error when it cannot be read or is longer than `max_bytes`.
std::string ReadFile(const std::filesystem::path& path, size_t max_bytes = size_t{1} << 31);

/// Where the pieces of a new file go.
class FileSink {
 public:
  virtual ~FileSink() = default;
  virtual void Write(std::span<const std::byte> bytes) = 0;
  void Write(std::string_view text) { Write(std::as_bytes(std::span(text.data(), text.size()))); }
};

/// Writes a temporary file beside `path`, flushes it to disk and renames it: on any failure (an exception out of
/// `fill`, a full disk) the old file stays as it was, the temporary one is removed, and Error is thrown.
void WriteFile(const std::filesystem::path& path, const std::function<void(FileSink&)>& fill);
void WriteFile(const std::filesystem::path& path, std::string_view text);

/// Brings to disk which files a folder has: a file that is whole may yet lack its name after a power cut.
void FlushFolder(const std::filesystem::path& folder);

/// Makes `link` a symbolic link to `target`, in one instant where it was one to something else.
void PointLink(const std::filesystem::path& link, const std::filesystem::path& target);

}  // namespace qkv
