#include "cli/images.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <system_error>

#include "cli/output.h"
#include "qkv/image/find.h"

namespace qkv::cli {
namespace fs = std::filesystem;

void ImageOptions::AddTo(CLI::App& command, bool required) {
  AddReading(command, required);
  AddBatch(command);
}

void ImageOptions::AddBatch(CLI::App& command) {
  command.add_option("--batch", batch, "Images computed together (default: what suits the model)")
      ->check(CLI::Range(1, 4096));
}

void ImageOptions::AddReading(CLI::App& command, bool required) {
  auto* option = command.add_option("PATH", paths, "Images, folders of images (read recursively), or - for stdin");
  if (required) option->required();
  AddHow(command);
}

void ImageOptions::AddHow(CLI::App& command) {
  command.add_flag("--ignore-exif", ignore_exif, "Do not turn images by their EXIF orientation");
  command.add_option("--window", window, "Grey levels that become black and white (medical images, up to 16 bits)")
      ->type_name("LOW,HIGH");
  command.add_option("--max-pixels", max_pixels, "Refuse larger images before decoding them")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40))
      ->type_name("N");
  command.add_flag("-q,--quiet", quiet, "No progress line");
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
