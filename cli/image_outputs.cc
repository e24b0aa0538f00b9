#include "cli/image_outputs.h"

#include <map>

#include "qkv/core/error.h"

namespace qkv::cli {

namespace fs = std::filesystem;

bool IsFolderOutput(const std::string& output) { return output.ends_with('/') || fs::is_directory(output); }

std::vector<fs::path> ImageOutputs(std::string_view command, const std::string& output, const ModelOptions& model,
                                   const std::vector<fs::path>& images) {
  const bool folder = IsFolderOutput(output);
  const std::string pattern = folder ? (fs::path(output) / "{}.png").string() : output;
  const size_t hole = pattern.rfind("{}");
  Require(hole != std::string::npos || images.size() == 1,
          "{}: -o {} is one file, for {} images; name a folder, as in maps/, or put {{}} for an image's name, as in "
          "map-{{}}.png",
          command, output, images.size());
  std::vector<fs::path> outputs;
  std::map<fs::path, fs::path> made_of;
  app::InputFiles inputs = InputsOf(model);
  inputs.Add(images);
  for (const fs::path& image : images) {
    std::string path = pattern;
    if (hole != std::string::npos) path.replace(hole, 2, image == "-" ? "stdin" : image.stem().string());
    const auto [other, is_new] = made_of.emplace(path, image);
    Require(is_new, "{}: {} and {} would both become {}", command, other->second.string(), image.string(), path);
    outputs.emplace_back(path);
  }
  if (folder) fs::create_directories(output);
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
