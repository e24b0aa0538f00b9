#include "qkv/image/find.h"

#include <algorithm>
#include <array>
#include <system_error>

#include "qkv/core/error.h"
#include "qkv/core/file.h"
#include "qkv/image/dicom_mark.h"
#include "qkv/image/image.h"

namespace qkv::image {

namespace fs = std::filesystem;

namespace {

bool IsLeftByTools(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.starts_with('.') || name == "__MACOSX";
}

std::string LowerEnding(const fs::path& path) {
  std::string ending = path.extension().string();
  for (char& c : ending) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return ending;
}

// Scanners name DICOM files by numbers, without an ending: known by their first bytes. Not the directory of a disk.
bool IsUnnamedDicom(const fs::path& path) {
  const std::string ending = path.extension().string();
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  if (!ending.empty() && !std::all_of(ending.begin() + 1, ending.end(), digit)) return false;
  std::array<std::byte, kDicomHeadBytes> head;
  try {
    InputFile file(path);
    if (file.stamp().size < head.size()) return false;
    file.Read(head);
  } catch (const Error&) {
    return false;
  }
  return IsDicom(head) && path.filename() != "DICOMDIR";
}

}  // namespace

bool ImageFinder::Mark(const fs::path& folder) {
  const FileStamp stamp = ReadFileStamp(folder);
  return seen_.emplace(stamp.device, stamp.inode).second;
}

std::vector<fs::path> ImageFinder::Find(const fs::path& folder) {
  Mark(folder);
  std::vector<fs::path> files;
  Walk(folder, 0, &files);
  std::ranges::sort(files);
  return files;
}

void ImageFinder::Walk(const fs::path& folder, int depth, std::vector<fs::path>* files) {
  Require(depth <= limits_.depth, "{}: more than {} folders within each other; name one that is deeper",
          folder.string(), limits_.depth);
  const auto options =
      limits_.skip_unreadable ? fs::directory_options::skip_permission_denied : fs::directory_options::none;
  std::vector<fs::path> folders;
  std::error_code error;
  for (fs::directory_iterator entry(folder, options, error), end; !error && entry != end; entry.increment(error)) {
    Require(++entries_ <= limits_.entries, "{}: more than {} files and folders; name a folder with fewer",
            folder.string(), limits_.entries);
    if (IsLeftByTools(entry->path())) continue;
    std::error_code ignored;
    if (entry->is_directory(ignored)) {
      folders.push_back(entry->path());
    } else if (HasImageEnding(entry->path()) || IsUnnamedDicom(entry->path())) {
      files->push_back(entry->path());
    } else {
      ++others_[LowerEnding(entry->path())];
    }
  }
  Require(!error, "cannot read folder {}: {}", folder.string(), error.message());
  std::ranges::sort(folders);  // deterministic choice between several paths to one folder
  for (const fs::path& next : folders) {
    // Skips folders that were removed meanwhile or are not accessible.
    std::error_code ignored;
    if (limits_.skip_unreadable && !fs::is_directory(next, ignored)) continue;
    if (Mark(next)) Walk(next, depth + 1, files);
  }
}

}  // namespace qkv::image
