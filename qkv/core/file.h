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

/// Whether the folder has an entry of this name. A link counts, wherever it leads: a file that may be absent is absent
/// only where nothing stands in its place. Throws Error when the system does not say.
bool IsThere(const std::filesystem::path& path);

/// A regular file, read from its beginning.
class InputFile {
 public:
  /// Throws Error with the path and the system's reason when it is no readable regular file: a folder or a pipe gets an
  /// error of its own, and is not waited for. Keeps no copy of `path`, which must outlive this.
  explicit InputFile(const std::filesystem::path& path);
  explicit InputFile(std::filesystem::path&& path) = delete;
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  ~InputFile();

  /// Of the moment when it was opened.
  const FileStamp& stamp() const { return stamp_; }
  /// The next bytes, as many as fit. Throws Error with the system's reason, also when the file ends before.
  void Read(std::span<std::byte> to);
  int descriptor() const { return descriptor_; }

 private:
  const std::filesystem::path* path_;
  int descriptor_ = -1;
  FileStamp stamp_;
};

/// A file's bytes, mapped read-only. Movable; unmapped on destruction. Allocates nothing.
/// A file that another process makes shorter does not end this one, as the system would have it (SIGBUS): what is
/// missing reads as zeros, and RequireUnchanged throws. The first MappedFile installs the signal's handler, which hands
/// on every fault outside of MappedFiles to the handler that was there before.
class MappedFile {
 public:
  MappedFile() = default;
  /// Throws Error as InputFile, and when there are more than 4,096 at once.
  explicit MappedFile(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return bytes_; }
  /// Of the moment when it was opened.
  const FileStamp& stamp() const { return stamp_; }
  /// Throws Error that begins with `name` when the file was written to or became shorter since it was opened: what was
  /// read of it may be neither the old bytes nor the new ones. To be asked after reading. A file that was replaced or
  /// removed is still whole here.
  void RequireUnchanged(std::string_view name) const;

 private:
  std::span<const std::byte> bytes_;
  FileStamp stamp_;
  int descriptor_ = -1;
  int guard_ = -1;  // its place among the mappings that the handler knows
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
/// `fill`, a full disk) the old file stays as it was, the temporary one is removed, and Error is thrown. The new file
/// has the old one's permissions. A link is replaced, not followed; a device or a pipe is written to as it is.
void WriteFile(const std::filesystem::path& path, const std::function<void(FileSink&)>& fill);
void WriteFile(const std::filesystem::path& path, std::string_view text);

/// Whether the name is one that WriteFile gives the temporary file of a file called `of`: what a process that was
/// killed while it wrote has left behind.
bool IsTemporaryOf(std::string_view name, std::string_view of);

/// Brings to disk which files a folder has: a file that is whole may yet lack its name after a power cut.
void FlushFolder(const std::filesystem::path& folder);

/// Makes `link` a symbolic link to `target`, in one instant where it was one to something else.
void PointLink(const std::filesystem::path& link, const std::filesystem::path& target);

/// Puts the folder `from` in the place of the folder `to`, and that in the place of `from`, in one instant. Where the
/// file system cannot do that, `to` is missing for a moment.
void ExchangeFolders(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace qkv
