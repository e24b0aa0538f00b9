// Files: read through a memory map, and written completely or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace qkv {

/// Throws Error "cannot ACTION PATH: REASON" unless a call of the system on the file was `done`. It reads errno itself,
/// first of all: as an argument beside the call, errno may be read before the call sets it.
void RequireCall(bool done, std::string_view action, const std::filesystem::path& path);

/// Detects whether a file is still the one that was read. Any change to its bytes moves `changed`, which no program can
/// set back, unlike the time of modification.
struct FileStamp {
  uint64_t device = 0, inode = 0, size = 0;
  int64_t modified = 0, changed = 0;  // nanoseconds since 1970

  bool operator==(const FileStamp&) const = default;
};

/// Throws Error when there is no such file.
FileStamp ReadFileStamp(const std::filesystem::path& path);

/// Whether the folder has an entry of this name. A link counts, even if its target is missing: an optional file is
/// absent only if no entry has its name. Throws Error when the system cannot answer.
bool FileExists(const std::filesystem::path& path);

/// A regular file, read from its beginning.
class InputFile {
 public:
  /// Throws Error with the path and the system's reason when this is not a readable regular file. A folder or a pipe
  /// gets an error of its own; opening does not wait for a pipe. Keeps no copy of `path`, which must outlive this.
  explicit InputFile(const std::filesystem::path& path);
  explicit InputFile(std::filesystem::path&& path) = delete;
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  ~InputFile();

  /// At the time of opening.
  const FileStamp& stamp() const { return stamp_; }
  /// Reads the next bytes until the buffer is full. Throws Error with the system's reason, also when the file ends
  /// before.
  void Read(std::span<std::byte> to);
  int descriptor() const { return descriptor_; }

 private:
  const std::filesystem::path* path_;
  int descriptor_ = -1;
  FileStamp stamp_;
};

/// A file's bytes, mapped read-only. Movable; unmapped on destruction. Allocates nothing. If another process truncates
/// the file, this process does not end with SIGBUS: missing bytes read as zeros, and RequireUnchanged throws. A
/// MappedFile installs the signal handler unless it is in front, and that passes every fault outside of MappedFiles to
/// the handler that it replaced.
class MappedFile {
 public:
  MappedFile() = default;
  /// Throws Error like InputFile, and when more than 4,096 files are mapped at once.
  explicit MappedFile(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }
  /// At the time of opening.
  const FileStamp& stamp() const { return stamp_; }
  /// Throws Error that begins with `name` when the file was written to or truncated since it was opened: the bytes read
  /// may then be neither the old nor the new ones. Call it after reading. A file that was replaced or removed is still
  /// complete here.
  void RequireUnchanged(std::string_view name) const;

 private:
  std::span<const std::byte> bytes_;
  FileStamp stamp_;
  int descriptor_ = -1;
  int guard_ = -1;  // its index among the mappings of the handler
};

/// Releases the memory of the whole pages in `part`, which must belong to a MappedFile; the next access reads the file
/// again.
void ReleasePages(std::span<const std::byte> part);

/// The whole file. Throws Error when it cannot be read or is longer than `max_bytes`.
std::string ReadFile(const std::filesystem::path& path, size_t max_bytes = size_t{1} << 31);

/// Receives the pieces of a new file.
class FileSink {
 public:
  virtual ~FileSink() = default;
  virtual void Write(std::span<const std::byte> bytes) = 0;
  void Write(std::string_view text) { Write(std::as_bytes(std::span(text.data(), text.size()))); }
};

/// Writes a temporary file beside `path`, flushes it to disk and renames it. On any failure (an exception from `fill`,
/// a full disk) the old file stays unchanged, the temporary file is removed, and Error is thrown. The new file has the
/// permissions of the old one. A link is replaced, not followed; a device or a pipe is written to directly.
void WriteFile(const std::filesystem::path& path, const std::function<void(FileSink&)>& fill);
void WriteFile(const std::filesystem::path& path, std::string_view text);

/// Whether WriteFile gives this name to the temporary file of a file called `of`: a killed process may have left one
/// behind.
bool IsTemporaryNameFor(std::string_view name, std::string_view of);

/// Flushes the entries of a folder to disk: after a power failure a complete file may lack its name otherwise.
void FlushFolder(const std::filesystem::path& folder);

/// Makes `link` a symbolic link to `target`; atomic if it was a link before.
void PointLink(const std::filesystem::path& link, const std::filesystem::path& target);

/// Exchanges the folders `from` and `to` atomically. If the file system does not support that, `to` is missing for a
/// moment.
void ExchangeFolders(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace qkv
