// Files that belong together: vectors and their names, maps and their descriptions.
#pragma once

#include <filesystem>
#include <functional>
#include <string_view>
#include <vector>

#include "qkv/core/file.h"
#include "qkv/core/staged_file.h"

namespace qkv {

/// Replaces several files such that no instant pairs new ones with old ones: the main file, without which the others
/// are of no use, has its name only while all others are of the same write. A process that is killed leaves the old
/// files, the new ones, or no main file. Two writers of one set at a time may mix theirs: readers compare checksums.
class FileSet {
 public:
  /// Writes a file under a temporary name, as WriteFile; the first is the main one. Throws Error if that fails; the old
  /// files stay unchanged.
  void Add(const std::filesystem::path& path, const std::function<void(FileSink&)>& fill);
  void Add(const std::filesystem::path& path, std::string_view text);

  /// Gives all files their names. Throws Error with the system's reason; then the old files are unchanged, or the main
  /// file is missing.
  void Publish();

 private:
  std::vector<StagedFile> files_;
};

/// Removes the main file of a set whose other files are to be written one by one, and flushes its folder. A file that
/// is not there, a device or a pipe is left alone. Throws Error with the system's reason.
void WithdrawFile(const std::filesystem::path& path);

}  // namespace qkv
