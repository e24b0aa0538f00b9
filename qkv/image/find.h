// Images in folders, however deep, and each folder once.
#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <utility>
#include <vector>

namespace qkv::image {

/// Walks folders. Links are followed, so a folder may lead to one that it lies in, or two to a third: the walk goes
/// into each once, told by device and inode.
class ImageFinder {
 public:
  /// What a walk may cost.
  struct Limits {
    int depth = 64;                      // of folders within each other
    int64_t entries = int64_t{1} << 26;  // that are looked at, over all walks: files of any kind, and folders
    bool skip_unreadable = false;        // folders that this user may not read are left out
  };

  ImageFinder() = default;
  explicit ImageFinder(const Limits& limits) : limits_(limits) {}  // with other limits

  /// A folder that later walks do not go into, as Find marks those that it was in. Whether it is the first time. Throws
  /// Error when there is no such folder.
  bool Mark(const std::filesystem::path& folder);

  /// The files with an image's ending in the folder, marked or not, and in the folders below that are not; sorted by
  /// path. Throws Error that names the folder which cannot be read, and where there are more folders within each other
  /// or more entries than the limits have.
  std::vector<std::filesystem::path> Find(const std::filesystem::path& folder);

 private:
  using Identity = std::pair<uint64_t, uint64_t>;  // device, inode

  void Walk(const std::filesystem::path& folder, int depth, std::vector<std::filesystem::path>* files);

  Limits limits_;
  std::set<Identity> seen_;
  int64_t entries_ = 0;
};

}  // namespace qkv::image
