#include "qkv/app/images/image_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "qkv/core/error.h"
#include "qkv/image/find.h"

namespace qkv::app {
namespace fs = std::filesystem;

namespace {

// Endings of notes and tables that usually lie beside images; not counted.
constexpr std::string_view kBeside[] = {".csv",         ".html", ".json", ".jsonl", ".md",  ".npy",  ".py",
                                        ".safetensors", ".sh",   ".tsv",  ".txt",   ".xml", ".yaml", ".yml"};

// "41 files of other types (.dcm, .svs) were left out", or nothing.
std::string DescribeOthers(const std::map<std::string, int64_t>& others) {
  int64_t files = 0, types = 0;
  std::string endings;
  constexpr int64_t kNamed = 8;
  for (const auto& [ending, count] : others) {
    if (std::ranges::find(kBeside, ending) != std::end(kBeside)) continue;
    files += count;
    if (++types > kNamed) continue;
    endings += fmt::format("{}{}", types > 1 ? ", " : "", ending.empty() ? "without ending" : ending);
  }
  if (files == 0) return "";
  return fmt::format("{} of other types ({}{}) {} left out", files == 1 ? "1 file" : fmt::format("{} files", files),
                     endings, types > kNamed ? ", …" : "", files == 1 ? "was" : "were");
}

}  // namespace

ImageList CollectImages(const std::vector<std::string>& paths, const Note& note) {
  ImageList images;
  std::string problems;
  std::map<std::string, int64_t> others;
  for (const std::string& path : paths) {
    if (path == "-" || !fs::is_directory(path)) {
      images.files.emplace_back(path);
      continue;
    }
    std::string problem;
    try {
      image::ImageFinder finder({.skip_unreadable = true});
      const std::vector<fs::path> found = finder.Find(path);
      for (const auto& [ending, count] : finder.others()) others[ending] += count;
      images.files.insert(images.files.end(), found.begin(), found.end());
      if (!found.empty()) continue;
      problem = FormatShown(
          "{}: no images in this folder (JPEG, PNG, WebP, GIF, BMP, TIFF, HEIC, AVIF, JPEG 2000, DICOM, PPM)", path);
    } catch (const Error& error) {
      problem = error.what();
    }
    problems += (problems.empty() ? "" : "\n") + problem;
    ++images.failed;
  }
  const std::string left_out = FormatShown("{}", DescribeOthers(others));
  Require(!images.files.empty(), "{}{}{}", EscapedText{problems}, left_out.empty() ? "" : "; ", left_out);
  if (!left_out.empty()) Notify(note, left_out);
  if (!problems.empty()) Notify(note, problems);
  return images;
}

ImageList SampleEvenly(const ImageList& images, int64_t count) {
  const int64_t all = std::ssize(images.files), taken = std::min<int64_t>(all, count);
  ImageList chosen{.failed = images.failed};
  for (int64_t i = 0; i < taken; ++i) chosen.files.push_back(images.files[static_cast<size_t>(i * all / taken)]);
  return chosen;
}

}  // namespace qkv::app
