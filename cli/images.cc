#include "cli/images.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <system_error>

#include "cli/output.h"
#include "qkv/image/find.h"

namespace qkv::cli {
namespace fs = std::filesystem;

void ImageOptions::AddTo(Command command, bool required) {
  AddReading(command, required);
  AddBatch(command);
}

void ImageOptions::AddBatch(Command command) {
  command.AddOption("--batch", &batch, "Images computed together (default: what suits the model)").Range(1, 4096);
}

void ImageOptions::AddReading(Command command, bool required) {
  const Option option =
      command.AddOption("PATH", &paths, "Images, folders of images (read recursively), or - for stdin");
  if (required) option.Required();
  AddHow(command);
}

void ImageOptions::AddHow(Command command) {
  command.AddFlag("--ignore-exif", &ignore_exif, "Do not turn images by their EXIF orientation");
  command.AddOption("--window", &window, "Grey levels that become black and white (medical images, up to 16 bits)")
      .TypeName("LOW,HIGH");
  command.AddOption("--max-pixels", &max_pixels, "Refuse larger images before decoding them")
      .Range(int64_t{1}, int64_t{1} << 40)
      .TypeName("N");
  command.AddFlag("-q,--quiet", &quiet, "No progress line");
}

image::DecodeOptions ImageOptions::Decode() const {
  image::DecodeOptions options;
  options.exif_orientation = !ignore_exif;
  options.max_pixels = max_pixels;
  if (!window.empty()) {
    double low = 0, high = 0;
    const char* const end = window.data() + window.size();
    const auto first = std::from_chars(window.data(), end, low);
    const bool comma = first.ec == std::errc() && first.ptr != end && *first.ptr == ',';
    const auto second = comma ? std::from_chars(first.ptr + 1, end, high) : first;
    Require(comma && second.ec == std::errc() && second.ptr == end && low < high,
            "--window: expected LOW,HIGH with LOW below HIGH, such as 0,4095, got \"{}\"", window);
    options.window = {low, high};
  }
  return options;
}

ImageList CollectImages(const std::vector<std::string>& paths) {
  ImageList images;
  std::string problems;
  for (const std::string& path : paths) {
    if (path == "-" || !fs::is_directory(path)) {
      images.files.emplace_back(path);  // one that is missing fails like one that is broken
      continue;
    }
    std::string problem;
    try {
      const std::vector<fs::path> found = image::ImageFinder({.skip_unreadable = true}).Find(path);
      images.files.insert(images.files.end(), found.begin(), found.end());
      if (!found.empty()) continue;
      problem = FormatShown("{}: no images in this folder (JPEG, PNG, WebP, GIF, BMP, TIFF, PPM)", path);
    } catch (const Error& error) {
      problem = error.what();
    }
    problems += (problems.empty() ? "" : "\n") + problem;
    ++images.failed;
  }
  Require(!images.files.empty(), "{}", Lines{problems});
  if (!problems.empty()) PrintMessage("qkv: {}\n", Lines{problems});
  return images;
}

ImageList Spread(const ImageList& images, int64_t count) {
  const auto all = std::ssize(images.files), taken = std::min<int64_t>(all, count);
  ImageList chosen{.failed = images.failed};
  for (int64_t i = 0; i < taken; ++i) chosen.files.push_back(images.files[static_cast<size_t>(i * all / taken)]);
  return chosen;
}

}  // namespace qkv::cli
