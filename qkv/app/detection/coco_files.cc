#include "qkv/app/detection/coco_files.h"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <vector>

#include "qkv/core/error.h"

namespace qkv::app {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kInstances = "instances_";
// More files than any data set has splits; a folder of a million files is not one.
constexpr int kMaxEntries = 10'000;

bool IsFile(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

// In a folder of annotations alone every JSON file may be one, except COCO's other tasks.
bool IsAnnotationFile(const fs::path& file, bool in_annotations) {
  const std::string name = file.filename().string();
  if (!name.ends_with(".json")) return false;
  if (name.starts_with(kInstances) || name.ends_with(".coco.json") || name == "annotations.json") return true;
  if (!in_annotations) return false;
  for (const std::string_view other : {"captions_", "person_keypoints_", "panoptic_", "stuff_", "image_info_"}) {
    if (name.starts_with(other)) return false;
  }
  return true;
}

// Adds the annotation files of one folder, and returns its folders.
std::vector<fs::path> AddAnnotationFiles(const fs::path& folder, std::vector<fs::path>& files) {
  std::vector<fs::path> folders;
  std::error_code error;
  int entries = 0;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end && ++entries <= kMaxEntries;
       entry.increment(error)) {
    std::error_code ignored;
    if (entry->is_directory(ignored)) {
      folders.push_back(entry->path());
    } else if (IsAnnotationFile(entry->path(), folder.filename() == "annotations")) {
      files.push_back(entry->path());
    }
  }
  return folders;
}

std::string ListPaths(const std::vector<fs::path>& paths) {
  constexpr size_t kShown = 10;
  std::string list;
  for (size_t i = 0; i < std::min(paths.size(), kShown); ++i) list += (i > 0 ? ", " : "") + paths[i].string();
  return paths.size() > kShown ? list + ", …" : list;
}

}  // namespace

std::optional<fs::path> FindCocoAnnotations(const fs::path& path, std::string_view split) {
  if (IsFile(path)) return path;
  std::vector<fs::path> files;
  for (const fs::path& folder : AddAnnotationFiles(path, files)) AddAnnotationFiles(folder, files);
  if (files.empty()) return std::nullopt;
  std::ranges::sort(files);
  std::vector<fs::path> matches;
  const std::string_view wanted = split.empty() ? "val" : split;
  for (const fs::path& file : files) {
    if (file.lexically_relative(path).string().find(wanted) != std::string::npos) matches.push_back(file);
  }
  if (matches.empty() && split.empty()) matches = files;
  Require(!matches.empty(), "{}: no annotation file of the split \"{}\"; there are {}", path.string(), split,
          ListPaths(files));
  Require(matches.size() == 1, "{}: several annotation files, name one of them: {}", path.string(), ListPaths(matches));
  return matches[0];
}

fs::path FindCocoImages(const fs::path& annotations, const CocoDataset& dataset) {
  Require(!dataset.images.empty(), "{}: no images", annotations.string());
  const fs::path folder = annotations.has_parent_path() ? annotations.parent_path() : fs::path(".");
  std::string name = annotations.stem().string();
  if (name.starts_with(kInstances)) name.erase(0, kInstances.size());
  const fs::path parent = folder / "..";
  std::vector<fs::path> tried;
  for (const fs::path& candidate : {folder, folder / "images", folder / name, folder / "images" / name, parent / name,
                                    parent / "images" / name, parent / "images", parent}) {
    tried.push_back(candidate.lexically_normal());
    if (IsFile(CocoImagePath(tried.back(), dataset.images[0]))) return tried.back();
  }
  Fail("{}: cannot find its image \"{}\"; looked in {}", annotations.string(), dataset.images[0].file_name,
       ListPaths(tried));
}

fs::path CocoImagePath(const fs::path& folder, const CocoImage& image) {
  const fs::path name = fs::path(image.file_name).lexically_normal();
  const bool inside = !name.empty() && name.is_relative() && *name.begin() != ".." && name.has_filename() &&
                      name != "." && image.file_name.find('\0') == std::string::npos;
  Require(inside, "image {}: expected a file_name in the folder of the images, got \"{}\"", image.id, image.file_name);
  return folder / name;
}

}  // namespace qkv::app
