// Temporary folders, and the folders of test data.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>

namespace qkv {

/// A temporary folder, removed with its contents.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "qkv-test-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  int Count() const { return static_cast<int>(std::distance(std::filesystem::directory_iterator(path_), {})); }

 private:
  std::filesystem::path path_;
};

/// Root of the repository.
inline std::filesystem::path SourceFolder() { return QKV_SOURCE_DIR; }

/// Folder of the real images (QKV_DATA), or empty: then tests that need them are skipped.
inline std::filesystem::path DataFolder() {
  const char* folder = ::getenv("QKV_DATA");
  return folder ? folder : "";
}

}  // namespace qkv
