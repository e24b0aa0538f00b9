// The temporary name of a file or folder until it is complete: NAME.qkv-0-N.tmp beside its target, N from 1. The writer
// holds a lock on it, which the system releases however the process ends. The next writer of the same target removes
// unlocked ones; where a file system has no locks, nothing is removed.
#pragma once

#include <filesystem>
#include <functional>

namespace qkv {

class Temporary {
 public:
  enum class Kind { kFile, kFolder };
  /// Removes a folder that a killed writer of the same target left.
  using RemoveFolder = std::function<void(const std::filesystem::path& left)>;

  /// Removes what killed writers left, and makes an empty file, or a folder. Throws Error with the system's reason.
  static Temporary File(const std::filesystem::path& target);
  static Temporary Folder(const std::filesystem::path& target, const RemoveFolder& remove);
  Temporary(Temporary&& other) noexcept;
  Temporary& operator=(Temporary&&) = delete;
  /// Removes the file, or the folder if it is empty, unless it was renamed.
  ~Temporary();

  const std::filesystem::path& path() const { return path_; }
  int descriptor() const { return descriptor_; }
  /// Gives it its target's name, atomically, in place of a file there. Throws Error with the system's reason.
  void Rename();
  /// Hands the file or folder over to the caller.
  void Release() { path_.clear(); }

 private:
  Temporary(const std::filesystem::path& target, Kind kind, const RemoveFolder& remove);
  /// False if the name is taken.
  bool Create(std::filesystem::path name);

  std::filesystem::path target_, path_;
  Kind kind_;
  int descriptor_ = -1;
};

/// The N-th name of this form; IsTemporaryNameFor (file.h) recognises it.
std::filesystem::path TemporaryName(const std::filesystem::path& target, int number);

}  // namespace qkv
