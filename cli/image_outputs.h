// The files that a command writes for its images, one for each.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"

namespace qkv::cli {

/// True if -o names a folder: one that exists, or by its last character.
bool IsFolderOutput(const std::string& output);

/// One file for each image: the named file; FOLDER/NAME.png in a folder, which is made; or the pattern with {} replaced
/// by the image's name without its ending. Throws Error, which begins with the command, unless all are different and
/// none is a file of the model or an image of the list, which may not have been read yet.
std::vector<std::filesystem::path> ImageOutputs(std::string_view command, const std::string& output,
                                                const ModelOptions& model,
                                                const std::vector<std::filesystem::path>& images);

/// The pictures that an option of a command names, likewise, which must end in .png; none if `output` is empty.
std::vector<std::filesystem::path> PngOutputs(std::string_view command, std::string_view option,
                                              const std::string& output, const ModelOptions& model,
                                              const std::vector<std::filesystem::path>& images);

}  // namespace qkv::cli
