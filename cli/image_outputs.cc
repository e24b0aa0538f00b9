#include "cli/image_outputs.h"

#include <map>
#include <set>

#include "qkv/core/error.h"

namespace qkv::cli {

namespace fs = std::filesystem;

bool IsFolderOutput(const std::string& output) { return output.ends_with('/') || fs::is_directory(output); }

namespace {

// Names of the outputs without their ending: those of the images, and with their folders where two have the same name
// (a/1.jpg, b/1.jpg) and outputs go to a folder.
std::vector<fs::path> NamesOf(const std::vector<fs::path>& images, bool folder) {
  std::vector<fs::path> names;
  std::set<fs::path> seen;
  for (const fs::path& image : images) {
    names.push_back(image == "-" ? fs::path("stdin") : image.stem());
    seen.insert(names.back());
  }
  if (!folder || seen.size() == images.size()) return names;
  // The deepest folder that has all of them.
  std::vector<fs::path> paths;
  for (const fs::path& image : images) paths.push_back(fs::absolute(image).lexically_normal());
  fs::path above = paths.front().parent_path();
  for (const fs::path& path : paths) {
    while (above.has_relative_path() && path.lexically_relative(above).native().starts_with("..")) {
      above = above.parent_path();
    }
  }
  for (size_t i = 0; i < paths.size(); ++i) {
    names[i] = paths[i].lexically_relative(above).parent_path() / names[i];
  }
  return names;
}

}  // namespace

std::vector<fs::path> ImageOutputs(std::string_view command, const std::string& output, const ModelOptions& model,
                                   const std::vector<fs::path>& images) {
  const bool folder = IsFolderOutput(output);
  const std::string pattern = folder ? (fs::path(output) / "{}.png").string() : output;
  const size_t hole = pattern.rfind("{}");
  Require(hole != std::string::npos || images.size() == 1,
          "{}: -o {} is one file, for {} images; name a folder, as in maps/, or put {{}} for an image's name, as in "
          "map-{{}}.png",
          command, output, images.size());
  const std::vector<fs::path> names = NamesOf(images, folder);
  std::vector<fs::path> outputs;
  std::map<fs::path, fs::path> made_of;
  app::InputFiles inputs = InputsOf(model);
  inputs.Add(images);
  for (size_t i = 0; i < images.size(); ++i) {
    const fs::path& image = images[i];
    std::string path = pattern;
    if (hole != std::string::npos) path.replace(hole, 2, names[i].string());
    const auto [other, is_new] = made_of.emplace(path, image);
    Require(is_new, "{}: {} and {} would both become {}", command, other->second.string(), image.string(), path);
    outputs.emplace_back(path);
  }
  if (folder) {
    for (const fs::path& file : outputs) fs::create_directories(file.parent_path());
  }
  for (const fs::path& file : outputs) inputs.RequireOutput(file);
  return outputs;
}

std::vector<fs::path> PngOutputs(std::string_view command, std::string_view option, const std::string& output,
                                 const ModelOptions& model, const std::vector<fs::path>& images) {
  if (output.empty()) return {};
  const fs::path ending = fs::path(output).extension();
  Require(IsFolderOutput(output) || ending == ".png", "{}: {} is a .png, or a folder for several photos, got {}{}",
          command, option, output,
          ending.empty() ? FormatShown("; a new folder is written with a slash: {}/", output) : "");
  return ImageOutputs(command, output, model, images);
}

}  // namespace qkv::cli
