// Temporary folders, and the folders that tests read from.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>

namespace qkv {

/// A folder that is removed with everything in it.
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

/// The repository's root.
inline std::filesystem::path SourceFolder() { return QKV_SOURCE_DIR; }

/// Where the real images were unpacked (QKV_DATA), or empty: then the tests that need them are skipped.
inline std::filesystem::path DataFolder() {
  const char* folder = ::getenv("QKV_DATA");
  return folder ? folder : "";
}

}  // namespace qkv
