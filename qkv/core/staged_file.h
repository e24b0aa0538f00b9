// A file that is written and on the disk, but does not have its name yet.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>

#include "qkv/core/file.h"
#include "qkv/core/temporary.h"

namespace qkv {

class StagedFile {
 public:
  /// Writes a temporary file beside `path` with the permissions of the old one, and flushes it to disk. A device or a
  /// pipe (/dev/stdout) cannot be replaced by a rename: it is written to here. Throws Error with the system's reason.
  StagedFile(const std::filesystem::path& path, const std::function<void(FileSink&)>& fill);

  const std::filesystem::path& path() const { return path_; }
  /// True if a file is to be replaced.
  bool replaces() const { return replaces_ && temporary_.has_value(); }
  /// Gives the file its name. Throws Error with the system's reason.
  void Publish() {
    if (temporary_) temporary_->Rename();
  }

 private:
  std::filesystem::path path_;
  bool replaces_ = false;
  std::optional<Temporary> temporary_;
};

}  // namespace qkv
