// Image folders, as torchvision's ImageFolder reads them: one folder per class, optionally within train/ and val/.
#include <algorithm>
#include <system_error>

#include "qkv/core/error.h"
#include "qkv/image/find.h"
#include "qkv/train/data/dataset_formats.h"

namespace qkv::train {
namespace {

namespace fs = std::filesystem;

// Skips folders that tools and archives leave (.git, .ipynb_checkpoints, __MACOSX).
std::vector<fs::path> FoldersIn(const fs::path& path) {
  std::vector<fs::path> folders;
  std::error_code error;
  for (fs::directory_iterator entry(path, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    const std::string name = entry->path().filename().string();
    const bool hidden = name.starts_with('.') || name == "__MACOSX";
    if (!hidden && entry->is_directory(ignored)) folders.push_back(entry->path());
  }
  Require(!error, "cannot read folder {}: {}", path.string(), error.message());
  std::ranges::sort(folders);
  return folders;
}

void AddClassFolders(const std::vector<fs::path>& folders, const std::vector<std::string>& classes,
                     image::ImageFinder& finder, Split* split) {
  for (const fs::path& folder : folders) {
    const std::string name = folder.filename().string();
    const int64_t label = FindLabel(classes, name);
    Require(label < std::ssize(classes), "{}: no such class in the training split", folder.string());
    for (fs::path& file : finder.Find(folder)) {
      split->files.push_back(std::move(file));
      split->labels.push_back(label);
    }
  }
}

}  // namespace

std::optional<Dataset> OpenImageFolder(const fs::path& path) {
  if (!fs::is_directory(path)) return {};
  const std::vector<fs::path> folders = FoldersIn(path);
  Dataset dataset{.format = "image folder"};
  const auto split_of = [](const fs::path& folder) { return SplitNamed(folder.filename().string()); };
  // Folders named test and val could be classes, unless there is a train folder or nothing else.
  const bool has_train = std::ranges::any_of(folders, [&](const fs::path& f) { return split_of(f) == "train"; });
  const bool in_splits =
      has_train ||
      (!folders.empty() && std::ranges::none_of(folders, [&](const fs::path& f) { return split_of(f).empty(); }));

  struct Part {
    std::string name;
    std::vector<fs::path> folders;
  };
  std::vector<Part> parts;
  if (in_splits) {
    for (const char* name : {"train", "val", "test"}) {
      for (const fs::path& folder : folders) {
        if (split_of(folder) != name) continue;
        Require(parts.empty() || parts.back().name != name, "{}: a second folder for the {} split", folder.string(),
                name);
        parts.push_back({name, FoldersIn(folder)});
        Require(!parts.back().folders.empty(), "{}: expected a folder for each class in it", folder.string());
      }
    }
  } else {
    parts.push_back({"all", folders});
  }
  for (const Part& part : parts) {
    for (const fs::path& folder : part.folders) dataset.classes.push_back(folder.filename().string());
    if (part.name == "train") break;  // a class unknown to training is an error below
  }
  SortClasses(dataset.classes);
  for (const Part& part : parts) {
    // Marks all roots first, so that a link from one class to another, or to all of them, is not followed. Otherwise an
    // image would belong to two classes, or to both training and validation; val and test may be the same.
    image::ImageFinder finder;
    finder.Mark(path);
    for (const fs::path& folder : in_splits ? folders : std::vector<fs::path>()) finder.Mark(folder);
    const auto mark = [](image::ImageFinder& marked, const std::vector<fs::path>& of) {
      for (const fs::path& folder : of) {
        Require(marked.Mark(folder), "{}: a folder that is there twice, by links; each class of a split has its own",
                folder.string());
      }
    };
    mark(finder, part.folders);
    const image::ImageFinder own = finder;
    for (const Part& other : parts) {
      if (&other == &part || (other.name != "train" && part.name != "train")) continue;
      image::ImageFinder both = own;
      mark(both, other.folders);
      for (const fs::path& folder : other.folders) finder.Mark(folder);
    }
    Split& split = dataset.splits.emplace_back(Split{.name = part.name});
    AddClassFolders(part.folders, dataset.classes, finder, &split);
  }
  if (!std::ranges::all_of(dataset.splits, [](const Split& split) { return split.size() == 0; })) return dataset;
  Require(image::ImageFinder().Find(path).empty(),
          "{}: images without classes: expected a folder for each class, with its images in it", path.string());
  return {};
}

}  // namespace qkv::train
