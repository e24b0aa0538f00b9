// Finds images in folders, recursively, visiting each folder once.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace qkv::image {

/// Walks folders. It follows links, so a folder may be reached in several ways or contain itself; each is visited once,
/// identified by device and inode. Names that begin with a dot and folders __MACOSX are left by systems and tools
/// (._a.jpg, .thumbnails, .git): they are skipped, unless a walk begins there.
class ImageFinder {
 public:
  /// Limits of a walk.
  struct Limits {
    int depth = 64;                      // depth of nested folders
    int64_t entries = int64_t{1} << 26;  // entries visited over all walks: files of any kind, and folders
    bool skip_unreadable = false;        // skip folders that this user may not read
  };

  ImageFinder() = default;
  explicit ImageFinder(const Limits& limits) : limits_(limits) {}  // with other limits

  /// Excludes a folder from later walks, as Find does for folders it has visited. Returns true if it was not yet
  /// excluded. Throws Error if there is no such folder.
  bool Mark(const std::filesystem::path& folder);

  /// Returns the files with an image's extension, or DICOM's first bytes and no extension, in the folder, even if it is
  /// marked, and in all unmarked folders below; sorted by path. Throws Error with the name of a folder that cannot be
  /// read, and if the depth or the number of entries exceeds the limits.
  std::vector<std::filesystem::path> Find(const std::filesystem::path& folder);
  /// How many files of other types all walks passed, by their endings in lower case (".svs", or "" for none).
  const std::map<std::string, int64_t>& others() const { return others_; }

 private:
  using Identity = std::pair<uint64_t, uint64_t>;  // device, inode

  void Walk(const std::filesystem::path& folder, int depth, std::vector<std::filesystem::path>* files);

  Limits limits_;
  std::set<Identity> seen_;
  int64_t entries_ = 0;
  std::map<std::string, int64_t> others_;
};

}  // namespace qkv::image
